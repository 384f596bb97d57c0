import type { ComponentChildren, RefObject } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { clock, duration, plural } from "./format";
import { useTheme, useVisible, useWidth } from "./hooks";
import { type Lane, nodeLanes, podLanes, present, readyCount, watchGaps } from "./lanes";
import { type Event, type Ns, type Window, judged } from "./model";
import { bar, looks, lookOf, noData, none, type Plot, type Theme } from "./paint";
import { describers, type Frame, Row } from "./row";
import type { Run } from "./run";
import { place } from "./run";
import { type Range, Scale, ticks, wholeRun } from "./scale";
import { Strip } from "./strips";

const noWindows: Window[] = [];

interface TimelineProps {
  run: Run;
  view: Range | undefined; // undefined shows the whole run
  onView: (view: Range | undefined) => void;
  onWindow: (w: Window) => void;
}

/** Timeline shows everything that has a time, on one axis. */
export function Timeline({ run, view, onView, onWindow }: TimelineProps) {
  const theme = useTheme();
  const [ref, outer] = useWidth<HTMLDivElement>();
  const narrow = outer < 760;
  const labelWidth = narrow ? 110 : 196;
  const figuresWidth = narrow ? 0 : 136;
  const { now, live } = run;
  const range = view ?? wholeRun(now, live);
  const scale = useMemo(
    () => new Scale(range, Math.max(outer - labelWidth - figuresWidth, 0)),
    [range.from, range.to, outer, labelWidth, figuresWidth],
  );
  const frame = { scale, theme, labelWidth, figuresWidth };
  const { targets, windows, events, pods } = run;
  const windowsOf = useMemo(() => byTarget(windows), [windows]);
  const nodes = useMemo(() => nodeLanes(events), [events]);
  const lanes = useMemo(() => podLanes(pods, events), [pods, events]);
  const strips = (evidence: boolean) => targets.filter((t) => judged(t.kind) !== evidence).map((t) => (
    <Strip
      key={t.name} frame={frame} target={t} series={run.series(t.name)} bucketWidth={run.bucketWidth}
      unobserved={run.unobserved} windows={windowsOf.get(t.name) ?? noWindows} now={now}
    />
  ));
  return (
    <section class="panel timeline" aria-label="Timeline">
      <header class="panel-head">
        <h2>Timeline</h2>
        <span class="faint">UTC, {clock(run.t0, range.from, 0)} to {clock(run.t0, range.to, 0)} ({duration(range.to - range.from)})</span>
        {view && <button type="button" data-testid="whole-run" onClick={() => onView(undefined)}>Show the whole run</button>}
        <Legend theme={theme} />
      </header>
      <Plots frame={frame} run={run} outer={ref} onWindow={onWindow}>
        <h3>Service</h3>
        {strips(false)}
        <h3>Evidence <span class="faint">each endpoint itself, and the prober's own control</span></h3>
        {strips(true)}
        <h3>Cluster</h3>
        <CommandRow frame={frame} run={run} />
        <ReadyRow frame={frame} events={events} now={now} />
        {nodes.map((l) => <LaneRow key={l.id} frame={frame} lane={l} events={events} now={now} />)}
        <Lanes frame={frame} lanes={lanes} events={events} now={now} />
        <LanesOff kinds={run.verdict?.validity?.lanesOff} />
      </Plots>
    </section>
  );
}

function byTarget(windows: Window[]): Map<string, Window[]> {
  const groups = new Map<string, Window[]>();
  for (const w of windows) groups.set(w.target, [...(groups.get(w.target) ?? []), w]);
  return groups;
}

interface PlotsProps {
  frame: Frame;
  run: Run;
  outer: RefObject<HTMLDivElement | null>;
  onWindow: (w: Window) => void;
  children: ComponentChildren;
}

/** Plots holds the rows, and what runs through all of them: the axis, window shading and the pointer's hairline. */
function Plots({ frame, run, outer, onWindow, children }: PlotsProps) {
  const hairline = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLDivElement>(null);
  const { scale, labelWidth } = frame;
  const point = (e: MouseEvent): void => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
    const x = e.clientX - box.left - labelWidth;
    const inside = x >= 0 && x <= scale.width;
    for (const mark of [hairline.current, readout.current]) if (mark) mark.hidden = !inside;
    if (!inside || !hairline.current || !readout.current) return;
    const at = scale.at(x);
    const row = (e.target as Element).closest("[data-row]");
    const said = row && describers.get(row)?.(at);
    hairline.current.style.left = `${labelWidth + x}px`;
    readout.current.textContent = clock(run.t0, at) + (said ? `  ${said}` : "");
    readout.current.style.left = `${labelWidth + Math.min(x, scale.width - 320)}px`;
  };
  const leave = () => { for (const mark of [hairline.current, readout.current]) if (mark) mark.hidden = true; };
  return (
    <div class="plots" ref={outer} onMouseMove={point} onMouseLeave={leave}>
      <div class="under" style={{ left: `${labelWidth}px`, width: `${scale.width}px` }} aria-hidden="true">
        {ticks(scale, run.t0, 90).map((t) => <div key={t.at} class="gridline" style={{ left: `${scale.x(t.at)}px` }} />)}
        {run.windows.map((w) => <Band key={w.id} frame={frame} window={w} />)}
        {run.live && <div class="nowline" style={{ left: `${scale.x(run.now)}px` }} />}
      </div>
      <Axis frame={frame} t0={run.t0} />
      <Marks frame={frame} windows={run.windows} onWindow={onWindow} />
      {children}
      <div class="hairline" ref={hairline} hidden />
      <div class="readout" ref={readout} hidden data-testid="readout" />
    </div>
  );
}

function Axis({ frame, t0 }: { frame: Frame; t0: number }) {
  const { scale, labelWidth } = frame;
  return (
    <div class="axis" data-testid="axis">
      {ticks(scale, t0, 90).map((t) => (
        <span key={t.at} style={{ left: `${labelWidth + scale.x(t.at)}px` }}>{clock(t0, t.at, t.digits)}</span>
      ))}
    </div>
  );
}

/** Band shades a window through all rows, so that the eye can follow it down to what happened then. */
function Band({ frame: { scale }, window: w }: { frame: Frame; window: Window }) {
  const [a, b] = [Math.max(scale.x(w.start.earliest), 0), Math.min(scale.x(w.end.latest), scale.width)];
  if (b < 0 || a > scale.width) return null;
  return <div class={`band ${w.kind}`} data-testid="band" data-window-id={w.id} style={{ left: `${a}px`, width: `${Math.max(b - a, 1)}px` }} />;
}

const pill = 22; // px

/** Marks are the windows' numbers over their places: buttons that zoom to them. */
function Marks({ frame: { scale, labelWidth }, windows, onWindow }: { frame: Frame; windows: Window[]; onWindow: (w: Window) => void }) {
  const ends: number[] = []; // where each level is taken up to
  const marks = windows.flatMap((w) => {
    const x = scale.x((w.start.earliest + w.end.latest) / 2);
    if (x < 0 || x > scale.width) return [];
    const left = Math.min(Math.max(x - pill / 2, 0), scale.width - pill);
    const free = ends.findIndex((end) => end <= left);
    const level = free >= 0 ? free : ends.length < 3 ? ends.length : 2;
    ends[level] = left + pill + 2;
    return [{ w, left, level }];
  });
  return (
    <div class="marks" style={{ height: `${Math.max(ends.length, 1) * 18 + 4}px` }}>
      <span class="row-label faint" style={{ width: `${labelWidth}px` }}>windows</span>
      {marks.map(({ w, left, level }) => (
        <button
          type="button" key={w.id} class={`mark ${w.kind}`} data-testid="window-mark" data-window-id={w.id}
          style={{ left: `${labelWidth + left}px`, top: `${level * 18 + 2}px` }}
          title={`Window ${w.id}: ${w.target}, ${w.kind}. Click to zoom`} onClick={() => onWindow(w)}
        >{w.id}</button>
      ))}
    </div>
  );
}

/** CommandRow shows the wrapped command, with a tick for each line it wrote. */
function CommandRow({ frame, run }: { frame: Frame; run: Run }) {
  const { events, now } = run;
  const command = run.info?.command;
  const lines = useMemo(() => events.filter((e) => e.kind === "command-output"), [events]);
  if (!command) return null;
  const text = command.args.join(" ");
  const ended = command.exitCode === undefined ? "" : `exit ${command.exitCode}`;
  return (
    <Row
      frame={frame} height={22} testid="command" label="command" title={text} figures={<span class={command.exitCode ? "bad" : "faint"}>{ended}</span>}
      summary={`Command ${text} ${ended}`} inputs={[command.start, command.end, now, lines, text]}
      paint={(p) => {
        if (command.start === undefined) return;
        const from = p.scale.x(command.start);
        bar(p, looks["command"]!, from, p.scale.x(command.end ?? now), text);
        p.ctx.fillStyle = p.theme.text;
        for (const e of lines) p.ctx.fillRect(p.scale.x(place(e)), p.height - 7, 1.5, 5);
      }}
      describe={(at) => nearest(lines, at, frame)?.detail ?? text}
    />
  );
}

/** nearest is the event within a few pixels of an instant, if there is one. */
function nearest(events: Event[], at: Ns, { scale }: Frame): Event | undefined {
  const reach = scale.at(5) - scale.at(0);
  let best: Event | undefined;
  for (const e of events) {
    const d = Math.abs(place(e) - at);
    if (d <= reach && (!best || d < Math.abs(place(best) - at))) best = e;
  }
  return best;
}

/** ReadyRow counts the endpoints that were ready, and hatches when there was none. */
function ReadyRow({ frame, events, now }: { frame: Frame; events: Event[]; now: Ns }) {
  const steps = useMemo(() => readyCount(events), [events]);
  if (!steps.length) return null;
  const most = Math.max(...steps.map((s) => s.ready), 1);
  const least = Math.min(...steps.map((s) => s.ready));
  return (
    <Row
      frame={frame} height={34} testid="ready-endpoints" label="ready endpoints" summary={`Ready endpoints: between ${least} and ${most}`}
      figures={<span class={least ? "faint" : "bad"}>least {least}</span>} inputs={[steps, now]}
      paint={(p) => steps.forEach((s, i) => paintReady(p, s.ready / most, s.ready, p.scale.x(s.start), p.scale.x(steps[i + 1]?.start ?? now)))}
      describe={(at) => plural(steps.findLast((s) => s.start <= at)?.ready ?? 0, "ready endpoint")}
    />
  );
}

function paintReady(p: Plot, share: number, ready: number, from: number, to: number): void {
  const { ctx, height, theme } = p;
  if (!ready) none(p, from, to);
  const top = height - 3 - share * (height - 8);
  ctx.fillStyle = theme.okSoft;
  ctx.fillRect(from, top, to - from, height - 3 - top);
  ctx.fillStyle = ready ? theme.ok : theme.bad;
  ctx.fillRect(from, top, Math.max(to - from, 1), 2);
  ctx.font = "600 11px system-ui, sans-serif";
  if (to - Math.max(from, 0) < 14) return;
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.name === "light" || !ready ? "#ffffffc8" : "#10141899";
  const x = Math.max(from, 0) + 4;
  const y = ready ? Math.min(top + 11, height - 9) : height / 2;
  ctx.fillRect(x, y - 7, ctx.measureText(String(ready)).width + 4, 13);
  ctx.fillStyle = ready ? theme.text : "#1b2026";
  ctx.fillText(String(ready), x + 2, y);
}

const laneHeight = 20;

/** Lanes shows the Pods and endpoints; of many only those in view. */
function Lanes({ frame, lanes, events, now }: { frame: Frame; lanes: Lane[]; events: Event[]; now: Ns }) {
  const visible = useVisible<HTMLDivElement>(lanes.length, laneHeight);
  return (
    <div class="lanes" ref={visible.ref} onScroll={visible.onScroll}>
      <div style={{ height: `${lanes.length * laneHeight}px` }}>
        <div style={{ transform: `translateY(${visible.first * laneHeight}px)` }}>
          {lanes.slice(visible.first, visible.last).map((l) => <LaneRow key={l.id} frame={frame} lane={l} events={events} now={now} />)}
        </div>
      </div>
    </div>
  );
}

/** LaneRow shows the states one node, Pod or endpoint went through. */
function LaneRow({ frame, lane, events, now }: { frame: Frame; lane: Lane; events: Event[]; now: Ns }) {
  const gaps = useMemo(() => watchGaps(events, lane.kind), [events, lane.kind]);
  const last = lane.states.at(-1)?.state ?? "";
  return (
    <Row
      frame={frame} height={laneHeight} testid={`${lane.kind}-lane`} id={lane.id} title={lane.title}
      label={<><span class="kind">{lane.kind === "endpoint" ? "└ endpoint" : lane.kind}</span> <span class={lane.kind === "endpoint" ? "faint" : "strong"}>{lane.label}</span> <span class="faint">{lane.note}</span></>}
      figures={<span class="faint">{present(last) ? lookOf(last).label : last}</span>}
      summary={`${lane.title}: ${lane.states.map((s) => s.state).join(", then ")}`}
      inputs={[lane.states, lane.states.length, gaps, now]}
      paint={(p) => paintLane(p, lane, gaps, now)}
      describe={(at) => `${lane.title}: ${stateAt(lane, gaps, at)}`}
    />
  );
}

function paintLane(p: Plot, lane: Lane, gaps: { start: Ns; end: Ns }[], now: Ns): void {
  lane.states.forEach((s, i) => {
    const end = lane.states[i + 1]?.start ?? now;
    if (present(s.state)) bar(p, lookOf(s.state), p.scale.x(s.start), p.scale.x(end));
  });
  for (const g of gaps) if (present(stateAt(lane, [], g.start))) noData(p, p.scale.x(g.start), p.scale.x(g.end));
}

function stateAt(lane: Lane, gaps: { start: Ns; end: Ns }[], at: Ns): string {
  if (gaps.some((g) => g.start <= at && at <= g.end)) return "no data: changes may have been missed here";
  const state = lane.states.findLast((s) => s.start <= at)?.state;
  return state === undefined ? "not there" : present(state) ? lookOf(state).label : state;
}

/** LanesOff names what could not be watched: an empty lane must not look like a quiet cluster. */
function LanesOff({ kinds }: { kinds?: string[] }) {
  if (!kinds?.length) return null;
  return <p class="note hatched" data-testid="lanes-off">Not watched, for want of rights: {kinds.join(", ")}</p>;
}

const legend: [string, (p: Plot) => void][] = [
  ["answered", (p) => swatch(p, "ok")],
  ["failed", (p) => swatch(p, "bad")],
  ["no data", (p) => noData(p, 0, 18)],
  ["window and its error bars", (p) => swatch(p, "window")],
];

function swatch({ ctx, height, theme }: Plot, kind: "ok" | "bad" | "window"): void {
  ctx.fillStyle = kind === "ok" ? theme.okSoft : kind === "bad" ? theme.bad : "#d55e0030";
  ctx.fillRect(0, 2, 18, height - 4);
  if (kind !== "window") return;
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = 1.5;
  for (const [x, side] of [[2, 1], [16, -1]] as const) {
    ctx.beginPath();
    ctx.moveTo(x + 4 * side, 1);
    ctx.lineTo(x, 1);
    ctx.lineTo(x, height - 1);
    ctx.lineTo(x + 4 * side, height - 1);
    ctx.stroke();
  }
}

function Legend({ theme }: { theme: Theme }) {
  return (
    <ul class="legend">
      {legend.map(([label, draw]) => (
        <li key={label}>
          <canvas
            key={theme.name} width={36} height={28} aria-hidden="true"
            ref={(c) => {
              const ctx = c?.getContext("2d");
              if (!ctx) return;
              ctx.setTransform(2, 0, 0, 2, 0, 0);
              draw({ ctx, height: 14, theme, scale: new Scale({ from: 0, to: 1 }, 18) });
            }}
          />
          {label}
        </li>
      ))}
    </ul>
  );
}
