import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Clock } from "./clock";
import { Cluster, Scrolled } from "./cluster";
import type { Cursor } from "./cursor";
import { Errors } from "./errors";
import type { Moment } from "./evidence";
import { duration, plural } from "./format";
import { Fold } from "./fold";
import { HeldRow } from "./heldrow";
import { Latency } from "./heat";
import { useDetails, useWidth } from "./hooks";
import { type Event, type Target, type Window, judged } from "./model";
import { Nodes } from "./nodes";
import { Overview } from "./overview";
import { availability, noData, type Plot, type Theme, whiskers } from "./paint";
import { type Gestures, Plots } from "./plots";
import { Prober } from "./prober";
import { rateChanges, rateText } from "./rates";
import { Frame } from "./row";
import { place, type Run } from "./run";
import { type Range, Scale } from "./scale";
import { byService } from "./sources";
import { Strip, stripHeight } from "./strips";
import { Swatch } from "./swatch";
import type { View } from "./view";

const noWindows: Window[] = [];
const fewControls = 2; // they are shown, even if all went well

interface TimelineProps extends Gestures {
  run: Run;
  view: View;
  whole: Range;
  disconnected: Range | undefined;
  theme: Theme;
  clock: Clock;
  cursor: Cursor;
  name?: string; // instead of "Timeline"
  brief?: boolean; // only what clients saw, and the cluster
  range: Range;
  steps: Moment[];
  onEvent: (e: Event) => void;
}

/** Timeline shows everything that has a time, on one axis. */
export function Timeline(props: TimelineProps) {
  const { run, view, range, whole, theme, clock, cursor, steps, brief, onRange, onEvent } = props;
  const [ref, outer] = useWidth<HTMLDivElement>();
  const labelWidth = outer < 760 ? 110 : outer < 1000 ? 170 : 200;
  const figuresWidth = outer < 760 ? 0 : outer < 1100 ? 136 : 216;
  const scale = useMemo(
    () => new Scale(range, Math.max(outer - labelWidth - figuresWidth, 0)),
    [range.from, range.to, outer, labelWidth, figuresWidth],
  );
  const frame = useMemo(() => new Frame(scale, theme, clock, cursor, labelWidth, figuresWidth, run.many), [scale.width, theme, clock, cursor, labelWidth, figuresWidth, run.many]);
  frame.scale = scale;
  useLayoutEffect(() => frame.draw(), [frame, scale]);
  const availabilityRows = useTint(ref);
  const choose = useRef(onEvent);
  choose.current = onEvent;
  const { targets, allWindows: windows } = run;
  useDetails(brief ? undefined : run, "evidence");
  const windowsOf = useMemo(() => byTarget(windows), [windows]);
  const windowsFrom = (target: string): Window[] => windowsOf.get(target) ?? noWindows;
  const strip = (t: Target) => (
    <Strip
      key={t.name} frame={frame} run={run} target={t} windows={windowsFrom(t.name)}
    />
  );
  const services = useMemo(() => run.services.map((s) => s.name), [run.services]);
  const groups = useMemo(() => byService(run.groupList, services), [run.groupList, services]);
  const failing = useMemo(() => groups.filter((g) => (g.failing ? g.failing.length > 0 : g.members.some((t) => windowsOf.has(t.name)))), [groups, windowsOf]);
  const evidence = useMemo(() => byService(targets.filter((t) => !judged(t.kind) && t.kind !== "held"), services), [targets, services]);
  const telling = useMemo(() => evidence.filter((t) => t.kind === "direct" || t.failed > 0), [evidence]);
  const pinned = view.event === undefined ? undefined : run.event(view.event);
  const rows = useMemo(() => (
    <>
      <div ref={availabilityRows}>
      <h3>Availability</h3>
      {rateChanges(targets).slice(0, 3).map((c) => <p key={c.at} class="note faint" data-testid="rate-change">{rateText(c, clock.at(c.at))}</p>)}
      <Fold all={groups} chosen={failing} others={(n) => `${plural(n, "target")} without a failure`} only="targets with failures or slow answers" testid="all-targets">
        {(shown) => shown.map((g) => (run.many || g.members.length > 1 ? <Nodes key={g.name} frame={frame} run={run} group={g} windowsOf={windowsFrom} /> : strip(g.members[0]!)))}
      </Fold>
      {run.held.map((h) => <HeldRow key={h.target} frame={frame} run={run} held={h} />)}
      </div>
      {!brief && <>
      <h3>Evidence <span class="faint">each endpoint itself, and the prober's own control</span></h3>
      {!run.has("evidence") && <p class="note faint" data-testid="loading">Loading {plural(run.counts?.evidence ?? 0, "target")}.</p>}
      <Fold always={evidence.length - telling.length > fewControls} all={evidence} chosen={telling} others={(n) => `${plural(n, "row")} of the prober's own without a failure`} only="endpoints, and what failed" testid="all-evidence">
        {(shown) => <Scrolled height={stripHeight.evidence} count={shown.length}>{(first, last) => shown.slice(first, last).map(strip)}</Scrolled>}
      </Fold>
      </>}
      <Cluster frame={frame} run={run} onEvent={(e) => choose.current(e)} />
      {!brief && <>
        <h3>Requests</h3>
        <Errors frame={frame} run={run} />
        <Latency frame={frame} run={run} />
        <Prober frame={frame} run={run} />
      </>}
    </>
  ), [run, run.version, frame]); // not by what part of the run is shown: the rows draw that themselves
  return (
    <section class="panel timeline" aria-label={props.name ?? "Timeline"}>
      <header class="panel-head">
        <h2>{props.name ?? "Timeline"}</h2>
        <span class="faint" data-testid="range">{clock.at(range.from, 0)} to {clock.at(range.to, 0)} ({duration(range.to - range.from)})</span>
        {(range.from > whole.from || range.to < whole.to) && <button type="button" data-testid="whole-run" onClick={() => onRange(undefined)}>Show the whole run</button>}
        <Legend theme={theme} />
      </header>
      <Failed run={run} clock={clock} />
      <Overview run={run} range={range} whole={whole} theme={theme} clock={clock} onRange={onRange} />
      <Plots {...props} frame={frame} steps={steps} measure={view.measure} pinned={pinned && place(pinned)} outer={ref}>
        {rows}
      </Plots>
    </section>
  );
}

/** useTint tells the style sheet where the rows of availability end: windows are tinted over these only. */
function useTint(plots: RefObject<HTMLElement | null>): RefObject<HTMLDivElement | null> {
  const rows = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const block = rows.current;
    if (!block) return;
    const observer = new ResizeObserver(() => plots.current?.style.setProperty("--tint", `${block.offsetTop + block.offsetHeight}px`));
    observer.observe(block);
    return () => observer.disconnect();
  }, []);
  return rows;
}

function byTarget(windows: Window[]): Map<string, Window[]> {
  const groups = new Map<string, Window[]>();
  for (const w of windows) groups.set(w.target, [...(groups.get(w.target) ?? []), w]);
  return groups;
}

/** Failed says that single targets cannot be shown, or not as they are now. */
function Failed({ run: { failed }, clock }: { run: Run; clock: Clock }) {
  if (!failed) return null;
  return <p class="note strong" role="status" data-testid="details-failed">Rows of single targets are not shown, or as they were before {clock.at((failed.since - clock.t0) * 1e6, 0)} {clock.name}: {failed.why}. The page tries again every second.</p>;
}

const openWindow = { start: { earliest: 0.05, latest: 0.3 }, end: { earliest: 0.7, latest: 0.95 }, open: { start: false, end: false } };

const legend: [string, (p: Plot) => void][] = [
  ["answered", (p) => availability(p, 0, 18, 0)],
  ["failed", (p) => availability(p, 0, 18, 1)],
  ["no data", (p) => noData(p, 0, 18)],
  ["window, and the bounds of its ends", (p) => whiskers(p, openWindow)],
  ["Pod that ended", (p) => availability(p, 0, 18, 1, true)],
];

function Legend({ theme }: { theme: Theme }) {
  return <ul class="legend">{legend.map(([label, draw]) => <li key={label}><Swatch theme={theme} draw={draw} />{label}</li>)}</ul>;
}
