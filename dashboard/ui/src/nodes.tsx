import { useMemo, useState } from "preact/hooks";
import { plural } from "./format";
import { Scrolled } from "./cluster";
import { few } from "./fold";
import { useDetails } from "./hooks";
import type { Ns, Target, Unobserved, Window } from "./model";
import { noData, whiskers, whiskerSpace } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { groups, type Together, together, worstOfAll } from "./slots";
import { agree, fromWhere, type TargetGroup } from "./sources";
import { Bars, measured, Strip, stripHeight } from "./strips";

interface NodesProps { frame: Frame; run: Run; group: TargetGroup; windowsOf: (target: string) => Window[] }

/** Nodes is what several nodes measured of one Service: in one row while they agree, and in a row for each where they do not. */
export function Nodes({ frame, run, group, windowsOf }: NodesProps) {
  const [chosen, setChosen] = useState<boolean>();
  const { members } = group;
  const open = group.targets > 1 && (chosen ?? !(group.agree ?? agree(group, windowsOf, run.unobserved)));
  const part = `members/${group.name}`;
  useDetails(open ? run : undefined, part);
  const windows = (group.failing ?? members.map((m) => m.name)).flatMap(windowsOf);
  const strip = (m: Target) => <Strip key={m.name} frame={frame} run={run} target={m} label={<span class="member">{fromWhere(m, run.sources)}</span>} windows={windowsOf(m.name)} />;
  return (
    <>
      <Shared frame={frame} run={run} group={group} windows={windows} open={open} onOpen={setChosen} />
      {open && !run.has(part) && <p class="note faint" data-testid="loading">Loading {plural(group.targets, "target")}.</p>}
      {open && (members.length > few ? <Scrolled height={stripHeight.judged} count={members.length}>{(first, last) => members.slice(first, last).map(strip)}</Scrolled> : members.map(strip))}
    </>
  );
}

interface SharedProps { frame: Frame; run: Run; group: TargetGroup; windows: Window[]; open: boolean; onOpen: (open: boolean) => void }

/** Shared draws the worst that any node saw. What one of them did not observe is drawn as no data where no other saw a failure. */
function Shared({ frame, run, group, windows, open, onOpen }: SharedProps) {
  const { name, members, targets, failed, sent } = group;
  const { bucketWidth, now } = run;
  const series = run.many ? [] : members.map((m) => run.series(m.name));
  const own = useMemo(() => together(series), series);
  const all = run.many ? run.togetherOf(name) : own;
  const gaps = useMemo(() => group.unobserved ?? gapsOf(members, run.unobserved), [group, run.unobserved]);
  const from = plural(targets, "node");
  return (
    <Row
      frame={frame} height={stripHeight.judged} testid="strip-group" id={name} title={members.length ? `${name}\nfrom ${members.map((m) => m.node).join(", ")}` : `${name}\nfrom ${from}`}
      label={<>
        {targets > 1 && <button type="button" class="twist" aria-expanded={open} aria-label={`${name}: each node`} onClick={() => onOpen(!open)}>{open ? "▾" : "▸"}</button>}
        <span class="two-lines"><b>{name}</b> {targets > 1 && <span class="faint">{from}</span>}</span>
      </>}
      figures={<><span class={failed ? "bad" : ""}>{failed} failed</span><span class="faint"> / {sent}</span></>}
      summary={`${name} from ${from}: ${failed} of ${sent} requests failed, ${plural(windows.length, "window")}`}
      inputs={[all, bucketWidth, gaps, now, windows.length]}
      paint={(row) => {
        const plot = { ...row, top: whiskerSpace };
        const bars = new Bars(plot);
        const span = spanOf(group, now);
        groups(plot.scale, bucketWidth, span.from, span.to, (first, n) => {
          bars.add(Math.max(first * bucketWidth, span.from), Math.min((first + n) * bucketWidth, span.to), worstOfAll(all, first, n));
        });
        bars.flush();
        for (const u of gaps) if (!failedIn(all, bucketWidth, u)) noData(plot, plot.scale.x(u.start), plot.scale.x(u.end));
        for (const w of windows) whiskers(plot, w);
      }}
    />
  );
}

/** spanOf is from when the first of them was measured to when the last was. */
function spanOf({ members, measured: known }: TargetGroup, now: Ns): { from: Ns; to: Ns } {
  if (known) return { from: known.earliest, to: Math.min(known.latest || now, now) };
  const spans = members.map((m) => measured(m, now));
  return { from: Math.min(...spans.map((s) => s.from)), to: Math.max(...spans.map((s) => s.to)) };
}

/** A Gap is a stretch in which one of them was not observed. */
type Gap = Pick<Unobserved, "start" | "end">;

const gapsOf = (members: Target[], unobserved: Unobserved[]): Gap[] => unobserved.filter((u) => members.some((m) => m.name === u.target));

/** failedIn tells whether any node saw a failure in unobserved time of another. */
const failedIn = (all: Together, width: Ns, u: Gap): boolean =>
  (worstOfAll(all, Math.floor(u.start / width), Math.max(1, Math.ceil((u.end - u.start) / width))) ?? 0) > 0;
