import { useMemo, useState } from "preact/hooks";
import { plural } from "./format";
import type { Ns, Series, Target, Unobserved, Window } from "./model";
import { edges, noData } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { groups, type Together, together, worstOfAll } from "./slots";
import { agree, fromWhere, type TargetGroup } from "./sources";
import { Bars, measured, Strip, stripHeight } from "./strips";

interface NodesProps { frame: Frame; run: Run; group: TargetGroup; windowsOf: (target: string) => Window[] }

/** Nodes is what several nodes measured of one Service: in one row while they agree, and in a row for each where they do not. */
export function Nodes({ frame, run, group, windowsOf }: NodesProps) {
  const [chosen, setChosen] = useState<boolean>();
  const open = chosen ?? !agree(group, windowsOf, run.unobserved);
  const series = group.members.map((m) => run.series(m.name));
  const windows = group.members.flatMap((m) => windowsOf(m.name));
  return (
    <>
      <Shared frame={frame} run={run} group={group} series={series} windows={windows} open={open} onOpen={setChosen} />
      {open && group.members.map((m, i) => (
        <Strip
          key={m.name} frame={frame} target={m} series={series[i]!} bucketWidth={run.bucketWidth} label={<span class="member">{fromWhere(m, run.sources)}</span>}
          unobserved={run.unobserved} windows={windowsOf(m.name)} now={run.now} live={run.live}
        />
      ))}
    </>
  );
}

interface SharedProps { frame: Frame; run: Run; group: TargetGroup; series: Series[]; windows: Window[]; open: boolean; onOpen: (open: boolean) => void }

/** Shared draws the worst that any node saw. What one of them did not observe is drawn as no data where no other saw a failure. */
function Shared({ frame, run, group: { name, members }, series, windows, open, onOpen }: SharedProps) {
  const { bucketWidth, unobserved, now } = run;
  const all = useMemo(() => together(series), series);
  const sum = (of: (t: Target) => number): number => members.reduce((total, t) => total + of(t), 0);
  const gaps = unobserved.filter((u) => members.some((m) => m.name === u.target));
  const failed = sum((t) => t.failed);
  return (
    <Row
      frame={frame} height={stripHeight.judged} testid="strip-group" id={name} title={`${name}\nfrom ${members.map((m) => m.node).join(", ")}`}
      label={<>
        <button type="button" class="twist" aria-expanded={open} aria-label={`${name}: each node`} onClick={() => onOpen(!open)}>{open ? "▾" : "▸"}</button>
        <b>{name}</b> <span class="faint">{plural(members.length, "node")}</span>
      </>}
      figures={<><span class={failed ? "bad" : ""}>{failed} failed</span><span class="faint"> / {sum((t) => t.sent)}</span></>}
      summary={`${name} from ${plural(members.length, "node")}: ${failed} of ${sum((t) => t.sent)} requests failed, ${plural(windows.length, "window")}`}
      inputs={[all, bucketWidth, unobserved, now, windows.length]}
      paint={(plot) => {
        const bars = new Bars(plot);
        const span = spanOf(members, now);
        groups(plot.scale, bucketWidth, span.from, span.to, (first, n) => {
          bars.add(Math.max(first * bucketWidth, span.from), Math.min((first + n) * bucketWidth, span.to), worstOfAll(all, first, n));
        });
        bars.flush();
        for (const u of gaps) if (!failedIn(all, bucketWidth, u)) noData(plot, plot.scale.x(u.start), plot.scale.x(u.end));
        for (const w of windows) edges(plot, w);
      }}
    />
  );
}

/** spanOf is from when the first of them was measured to when the last was. */
function spanOf(members: Target[], now: Ns): { from: Ns; to: Ns } {
  const spans = members.map((m) => measured(m, now));
  return { from: Math.min(...spans.map((s) => s.from)), to: Math.max(...spans.map((s) => s.to)) };
}

/** failedIn tells whether any node saw a failure in unobserved time of another. */
const failedIn = (all: Together, width: Ns, u: Unobserved): boolean =>
  (worstOfAll(all, Math.floor(u.start / width), Math.max(1, Math.ceil((u.end - u.start) / width))) ?? 0) > 0;
