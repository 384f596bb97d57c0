import { useMemo, useState } from "preact/hooks";
import { coverage, number, percent, plural } from "./format";
import { soundness } from "./headline";
import { type Blank, faults, healthLine, stallBlanks, unobservedBlanks, watchBlanks } from "./health";
import type { Target } from "./model";
import { noData } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";

/** Prober shows how good the measurement itself was. Its word is the header's. It is folded while there is nothing to say against it. */
export function Prober({ frame, run }: { frame: Frame; run: Run }) {
  const [chosen, setChosen] = useState<boolean>();
  const { verdict, info, events, targets } = run;
  const stalls = useMemo(() => stallBlanks(events), [events]);
  const gaps = useMemo(() => watchBlanks(events), [events]);
  const unobserved = useMemo(() => unobservedBlanks(run.unobserved, targets), [run.unobserved, targets]);
  const figures = useMemo(() => <Targets targets={targets} />, [targets]);
  if (!verdict) return null;
  const judged = { verdict, ...(info && { info }) };
  const wrong = faults(judged);
  const sound = soundness(judged);
  const open = chosen ?? wrong.length > 0;
  return (
    <>
      <h3 class="fold">
        <button type="button" aria-expanded={open} data-testid="prober" data-sound={sound} onClick={() => setChosen(!open)}>
          <span aria-hidden="true">{open ? "▾" : "▸"}</span> Prober <span class={sound === "valid" ? "good" : "bad"}>{sound === "valid" ? "✓" : "!"} {sound}</span>
        </button>
        <span class="faint">{healthLine(verdict)}</span>
      </h3>
      {open && (
        <div data-testid="prober-rows">
          <Blanks frame={frame} name="unobserved" blanks={unobserved} />
          <Blanks frame={frame} name="prober stalls" blanks={stalls} />
          <Blanks frame={frame} name="watch gaps" blanks={gaps} />
          {figures}
        </div>
      )}
    </>
  );
}

/** Blanks is a row of what was not seen. */
function Blanks({ frame, name, blanks }: { frame: Frame; name: string; blanks: Blank[] }) {
  return (
    <Row
      frame={frame} height={18} testid="blanks" id={name} label={<span class="kind">{name}</span>} figures={<span class="faint">{blanks.length ? plural(blanks.length, "stretch", "stretches") : "none"}</span>}
      summary={`${name}: ${blanks.length ? blanks.map((b) => b.why).join("; ") : "none"}`} inputs={[blanks]}
      paint={(p) => { for (const b of blanks) noData(p, p.scale.x(b.start), p.scale.x(b.end)); }}
      tell={(at) => blanks.find((b) => b.start <= at && at <= b.end)?.why ?? "none"}
    />
  );
}

function Targets({ targets }: { targets: Target[] }) {
  return (
    <div class="prober-figures">
      <table class="prober-targets">
        <thead><tr><th scope="col">Target</th><th scope="col" class="num">Sent</th><th scope="col" class="num">Late</th><th scope="col" class="num">Without evidence</th><th scope="col" class="num">Coverage</th><th scope="col" class="num">Rate</th></tr></thead>
        <tbody>
          {targets.slice(0, 40).map((t) => (
            <tr key={t.name}>
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
      {targets.length > 40 && <p class="note faint">and {targets.length - 40} more in timeline.json</p>}
    </div>
  );
}
