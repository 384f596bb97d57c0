import type { Event, Ns, RunInfo } from "./model";
import { place } from "./run";

/** Phases of a run, in order, with what the page calls them. */
export const phaseNames = { baseline: "baseline", measuring: "command", settling: "settle" } as const;

export type PhaseName = keyof typeof phaseNames;

/** A Phase is what a run that goes on is at, and how much of it is left where that is known. */
export interface Phase { name: PhaseName; left?: Ns }

/** phaseOf is the phase that a run is in; none before its first and after its last one. */
export function phaseOf(events: Event[], info: RunInfo | undefined, now: Ns): Phase | undefined {
  const entered = events.findLast((e) => e.kind === "run");
  const name = entered?.to as PhaseName | undefined;
  if (!entered || !name || !Object.hasOwn(phaseNames, name)) return undefined;
  const length = { baseline: info?.baseline, measuring: undefined, settling: info?.settle }[name];
  return length ? { name, left: Math.max(0, place(entered) + length - now) } : { name };
}
