import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** few is up to how many rows of a sort are all shown. */
export const few = 16;

interface FoldProps<T> {
  all: T[];
  chosen: T[]; // of many, those that are shown first
  others: (n: number) => string; // names the rest, as in "3 targets without a failure"
  only: string; // what the chosen ones are, as in "those with failures"
  testid: string;
  always?: boolean; // also where they are few
  children: (shown: T[]) => ComponentChildren;
}

/** Fold shows all rows where they are few; of many the chosen ones, and the others when asked for. */
export function Fold<T>({ all, chosen, others, only, testid, always, children }: FoldProps<T>) {
  const [open, setOpen] = useState(false);
  const rest = all.length - chosen.length;
  const foldable = (always || all.length > few) && rest > 0;
  return (
    <>
      {children(foldable && !open ? chosen : all)}
      {foldable && (
        <p class="note"><button type="button" data-testid={testid} aria-pressed={open} onClick={() => setOpen(!open)}>
          {open ? `Show only ${only}` : `Show also ${others(rest)}`}
        </button></p>
      )}
    </>
  );
}
