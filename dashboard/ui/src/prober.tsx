import { useMemo, useState } from "preact/hooks";
import { coverage, number, percent, plural } from "./format";
import { type Blank, groupBlanks, minCoverage, proberText, stallBlanks, unobservedBlanks, watchBlanks } from "./health";
import { Fold } from "./fold";
import { type Target, judged } from "./model";
import { noData } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";

/** Prober shows how good the measurement itself was. Its word is the header's. It is folded while there is nothing to say against it. */
export function Prober({ frame, run }: { frame: Frame; run: Run }) {
  const [chosen, setChosen] = useState<boolean>();
  const { said, info, events, targets, counts, groupList } = run;
  const stalls = useMemo(() => stallBlanks(events), [events]);
  const gaps = useMemo(() => watchBlanks(events), [events]);
  const unobserved = useMemo(() => (counts ? groupBlanks(groupList) : unobservedBlanks(run.unobserved, targets)), [run.unobserved, targets, groupList]);
  const rows = useMemo(() => (counts ? [...groupList, ...targets.filter((t) => !judged(t.kind))] : targets), [groupList, targets]);
  const figures = useMemo(() => <Targets targets={rows} least={minCoverage(info)} lazy={frame.lazy} />, [rows, info, frame.lazy]);
  if (!said) return null;
  const sound = said.soundness;
  const open = chosen ?? sound !== "valid";
  return (
    <>
      <h3 class="fold">
        <button type="button" aria-expanded={open} data-testid="prober" data-sound={sound} onClick={() => setChosen(!open)}>
          <span aria-hidden="true">{open ? "▾" : "▸"}</span> Prober <span>{sound === "valid" ? "✓" : "!"} {sound}</span>
        </button>
        <span class="faint" data-testid="prober-line">{proberText(said)}</span>
      </h3>
      {open && (
        <div data-testid="prober-rows">
          <Blanks frame={frame} name="unobserved" blanks={unobserved} {...(counts && { count: counts.unobserved })} />
          <Blanks frame={frame} name="prober stalls" blanks={stalls} />
          <Blanks frame={frame} name="watch gaps" blanks={gaps} />
          {figures}
        </div>
      )}
    </>
  );
}

/** Blanks is a row of what was not seen. */
function Blanks({ frame, name, blanks, count = blanks.length }: { frame: Frame; name: string; blanks: Blank[]; count?: number }) {
  return (
    <Row
      frame={frame} height={18} testid="blanks" id={name} label={<span class="kind">{name}</span>} figures={<span class="faint">{count ? plural(count, "stretch", "stretches") : "none"}</span>}
      summary={`${name}: ${blanks.length ? inWords(blanks) : "none"}`} inputs={[blanks]}
      paint={(p) => { for (const b of blanks) noData(p, p.scale.x(b.start), p.scale.x(b.end)); }}
      tell={(at) => blanks.find((b) => b.start <= at && at <= b.end)?.why ?? "none"}
    />
  );
}

/** inWords names the first of many blanks. */
const inWords = (blanks: Blank[]): string => blanks.slice(0, 50).map((b) => b.why).join("; ") + (blanks.length > 50 ? `; and ${blanks.length - 50} more` : "");

/** A Measured is a target, or a group of them. */
type Measured = Pick<Target, "name" | "sent" | "late" | "notSent" | "coverage" | "achievedRate" | "rate">;

/** Targets says of each target how well it was measured: of many at first of those that were not measured as they should have been. */
function Targets({ targets, least, lazy }: { targets: Measured[]; least: number; lazy: boolean }) {
  const short = targets.filter((t) => t.notSent > 0 || t.coverage < least);
  return (
    <div class={`prober-figures ${lazy ? "lazy" : ""}`}>
      <Fold all={targets} chosen={short} others={(n) => `${plural(n, "target")} with evidence for every request, observed as long as asked`} only="targets that lack evidence or coverage" testid="all-measured">
        {(shown) => shown.length > 0 && (
          <table class="prober-targets">
            <thead><tr><th scope="col">Target</th><th scope="col" class="num">Sent</th><th scope="col" class="num">Late</th><th scope="col" class="num">Without evidence</th><th scope="col" class="num">Coverage</th><th scope="col" class="num">Rate</th></tr></thead>
            <tbody>
              {shown.map((t) => (
                <tr key={t.name} data-testid="measured-row">
                  <th scope="row">{t.name}</th>
                  <td class="num">{t.sent}</td>
                  <td class="num">{t.late} <span class="faint">{percent(t.late / Math.max(t.sent, 1))}</span></td>
                  <td class="num">{t.notSent}</td>
                  <td class="num">{coverage(t.coverage)}</td>
                  <td class="num">{number(t.achievedRate)} <span class="faint">of {number(t.rate)}/s</span></td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Fold>
    </div>
  );
}
