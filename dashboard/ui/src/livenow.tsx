import { plural } from "./format";
import type { Event } from "./model";
import { type Phase, phaseNames, phaseOf } from "./phase";
import type { Run } from "./run";
import { failuresBefore } from "./slots";

const seconds = 30; // that are shown of the failures
const [barWidth, height] = [4, 18]; // px

/** LiveNow is what is worth knowing of a run that goes on: its phase, the failures of the last seconds, and what preflight predicts. */
export function LiveNow({ run }: { run: Run }) {
  const last = failuresBefore(run.together, run.bucketWidth, run.now, seconds);
  const failed = last.reduce((all, n) => all + n, 0);
  const most = Math.max(...last, 1);
  return (
    <>
      <Progress phase={phaseOf(run.events, run.info, run.now)} />
      <p class="spark" data-testid="spark">
        <svg class="run-bars" viewBox={`0 0 ${seconds * barWidth} ${height}`} width={seconds * barWidth} height={height} aria-hidden="true">
          <line x1={0} x2={seconds * barWidth} y1={height - 0.5} y2={height - 0.5} />
          {last.map((n, i) => n > 0 && <rect key={i} x={i * barWidth} width={barWidth - 1} y={height - Math.max((n / most) * height, 2)} height={height} />)}
        </svg>
        <span class={failed ? "bad" : "faint"}>{failed ? `${plural(failed, "failure")}` : "no failure"} in the last {plural(seconds, "second")}</span>
      </p>
      <Foretold events={run.events} />
    </>
  );
}

/** Progress shows which phase a run is in, and how much of it is left. */
function Progress({ phase }: { phase: Phase | undefined }) {
  if (!phase) return null;
  const names = Object.keys(phaseNames) as Phase["name"][];
  const at = names.indexOf(phase.name);
  return (
    <ol class="progress" data-testid="phase" data-phase={phase.name}>
      {names.map((name, i) => (
        <li key={name} class={i < at ? "done" : i === at ? "current" : ""} aria-current={i === at ? "step" : undefined}>
          <span aria-hidden="true">{i < at ? "●" : i === at ? "◐" : "○"}</span> {phaseNames[name]}{i === at && phase.left !== undefined && `, ${Math.ceil(phase.left / 1e9)}\u00a0s left`}
        </li>
      ))}
    </ol>
  );
}

const mostForetold = 2;

/** Foretold is what preflight predicts, the gravest first, without what somebody has accepted. */
function Foretold({ events }: { events: Event[] }) {
  const all = events.flatMap((e) => e.preflight?.predictions ?? []).filter((p) => !p.accepted);
  if (!all.length) return null;
  return (
    <ul class="foretold" data-testid="foretold">
      {all.slice(0, mostForetold).map((p, i) => <li key={i}><b>preflight {p.severity}</b> {p.text} <span class="faint">{p.rule} {p.name}</span></li>)}
      {all.length > mostForetold && <li class="faint">and {all.length - mostForetold} more</li>}
    </ul>
  );
}
