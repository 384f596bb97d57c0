import { type ComponentChildren, Fragment } from "preact";
import { useMemo } from "preact/hooks";
import { few, Fold } from "./fold";
import { plural } from "./format";
import { useVisible } from "./hooks";
import { changed, checkLanes, type Lane, lanesByService, nodeLanes, notChecked, planeLanes, planeNotes, podLanes, present, watchGaps } from "./lanes";
import type { Event, Ns, WatchedService } from "./model";
import { bar, looks, lookOf, noData, paintReady, type Plot, type Theme } from "./paint";
import { type Frame, Row, useRested } from "./row";
import { place, type Run } from "./run";
import type { Range } from "./scale";
import { Swatch } from "./swatch";

interface ClusterProps { frame: Frame; run: Run; onEvent: (e: Event) => void }

/** Cluster shows what happened in the cluster: the command, the events, readiness, and a lane for each thing. */
export function Cluster({ frame, run, onEvent }: ClusterProps) {
  const { controlPlane, events, pods, services, now } = run;
  const nodes = useMemo(() => nodeLanes(events), [events]);
  const checks = useMemo(() => checkLanes(events), [events]);
  const plane = useMemo(() => planeLanes(controlPlane), [controlPlane]);
  const unasked = useMemo(() => notChecked(events), [events]);
  const lanes = useMemo(() => podLanes(pods, events), [pods, events]);
  const byService = useMemo(() => lanesByService(lanes, services.map((s) => s.name)), [lanes, services]);
  const began = run.info?.baseline ?? 0;
  const changing = useMemo(() => services.filter((s) => s.endpoints.length > 1), [services]);
  return (
    <>
      <h3 class="with-legend">Cluster <States theme={frame.theme} lanes={[lanes, nodes, checks, plane]} /></h3>
      <CommandRow frame={frame} run={run} />
      <EventsRow frame={frame} events={events} onEvent={onEvent} />
      <Fold all={services} chosen={changing} others={(n) => `${plural(n, "Service")} whose endpoints did not change`} only="Services whose endpoints changed" testid="all-ready">
        {(shown) => shown.map((s) => (
          <Fragment key={s.name}>
            <ReadyRow frame={frame} service={s} events={events} alone={services.length === 1} now={now} />
            <Lanes what={services.length > 1 ? `Pod and endpoint of ${s.name}` : "Pod and endpoint"} frame={frame} lanes={byService.get(s.name) ?? noLanes} events={events} began={began} now={now} />
          </Fragment>
        ))}
      </Fold>
      <Lanes what="Pod and endpoint" frame={frame} lanes={byService.get("") ?? noLanes} events={events} began={began} now={now} />
      <Lanes what="node" frame={frame} lanes={nodes} events={events} began={began} now={now} />
      <Lanes what="health check" frame={frame} lanes={checks} events={events} began={began} now={now} />
      <Lanes what="API server" frame={frame} lanes={plane} events={events} began={began} now={now} />
      {planeNotes(controlPlane).map((text) => <p key={text} class="note faint" data-testid="plane-not-measured">Control plane, not measured: {text}</p>)}
      {unasked && <p class="note faint" data-testid="not-checked">Health checks of nodes: {unasked}</p>}
      {run.partial && <p class="note faint" data-testid="cluster-loading">Loading Pods and events.</p>}
      {!run.partial && !nodes.length && !lanes.length && <p class="note faint" data-testid="not-watched">Nothing of a cluster was seen in this run.</p>}
      <LanesOff kinds={run.verdict?.validity?.lanesOff} />
    </>
  );
}

/** States is what the states look like that the lanes of a run have. */
function States({ theme, lanes }: { theme: Theme; lanes: Lane[][] }) {
  const states = useMemo(() => [...new Set(lanes.flat().flatMap((l) => l.states.map((s) => s.state)).filter(present))].sort(), lanes);
  return <span class="legend">{states.slice(0, few).map((s) => <span key={s}><Swatch theme={theme} draw={(p) => bar(p, lookOf(s), 0, 18, "")} /><b>{lookOf(s).letter}</b>{lookOf(s).label}</span>)}</span>;
}

const noLanes: Lane[] = [];

/** CommandRow shows the wrapped command, with a tick for each line it wrote. */
function CommandRow({ frame, run }: { frame: Frame; run: Run }) {
  const { events, now } = run;
  const command = run.info?.command;
  const lines = useMemo(() => events.filter((e) => e.kind === "command-output"), [events]);
  const places = useMemo(() => placesOf(lines), [lines]);
  if (!command) return null;
  const text = command.args.join(" ");
  const ended = command.exitCode === undefined ? "" : `exit ${command.exitCode}`;
  return (
    <Row
      frame={frame} height={22} testid="command" label="command" title={text} figures={<span class={command.exitCode ? "strong" : "faint"}>{ended}</span>}
      summary={`Command ${text} ${ended}`} inputs={[command.start, command.end, now, lines, text]}
      paint={(p) => {
        if (command.start === undefined) return;
        const from = p.scale.x(command.start);
        bar(p, looks["command"]!, from, p.scale.x(command.end ?? now), text);
        p.ctx.fillStyle = p.theme.text;
        marks(p, places, (x) => p.ctx.fillRect(x, p.height - 7, 1.5, 5));
      }}
      tell={(at) => nearest(lines, places, at, frame)?.detail ?? (command.start !== undefined && at >= command.start && at <= (command.end ?? now) ? "running" : "not running")}
    />
  );
}

/** EventsRow marks every event; a click selects the nearest. */
function EventsRow({ frame, events, onEvent }: { frame: Frame; events: Event[]; onEvent: (e: Event) => void }) {
  const places = useMemo(() => placesOf(events), [events]);
  const pick = (e: MouseEvent): void => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    const event = nearest(events, places, frame.scale.at(e.clientX - box.left - frame.labelWidth), frame);
    if (event) onEvent(event);
  };
  return (
    <div class="pick" onClick={pick}>
      <Row
        frame={frame} height={16} testid="events-row" label="events" figures={<span class="faint">{plural(events.length, "event")}</span>}
        summary={`${events.length} events; the log below lists them`} inputs={[events]}
        paint={(p) => {
          p.ctx.fillStyle = p.theme.faint;
          marks(p, places, (x) => p.ctx.fillRect(x, 4, 1, p.height - 8));
        }}
        tell={(at) => {
          const e = nearest(events, places, at, frame);
          return e ? [e.kind, e.object?.name, e.to, e.detail].filter(Boolean).join(" ") : "";
        }}
      />
    </div>
  );
}

const placesOf = (events: Event[]): Float64Array => Float64Array.from(events, place);

/** firstFrom is the index of the first of the rising instants that is not before one. */
function firstFrom(places: Float64Array, at: Ns): number {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** marks visits the pixels in view at which one of the rising instants lies. */
function marks({ scale }: Plot, places: Float64Array, visit: (x: number) => void): void {
  let last = -1;
  for (let i = firstFrom(places, scale.range.from); i < places.length && places[i]! <= scale.range.to; i++) {
    const x = Math.round(scale.x(places[i]!));
    if (x !== last) visit(x);
    last = x;
  }
}

/** nearest is the event within a few pixels of an instant, if there is one. */
function nearest(events: Event[], places: Float64Array, at: Ns, { scale }: Frame): Event | undefined {
  const reach = scale.at(5) - scale.at(0);
  let best: number | undefined;
  for (let i = firstFrom(places, at - reach); i < places.length && places[i]! <= at + reach; i++) {
    if (best === undefined || Math.abs(places[i]! - at) < Math.abs(places[best]! - at)) best = i;
  }
  return best === undefined ? undefined : events[best];
}

/** ReadyRow counts the endpoints of a Service that were ready, and hatches when there was none. */
function ReadyRow({ frame, service: { name, endpoints }, events, alone, now }: { frame: Frame; service: WatchedService; events: Event[]; alone: boolean; now: Ns }) {
  const steps = useMemo(() => endpoints.filter((s, i) => s.ready !== endpoints[i - 1]?.ready), [endpoints]);
  const gaps = useMemo(() => watchGaps(events, { kind: "endpoint", services: [name] }), [events, name]);
  const most = Math.max(...steps.map((s) => s.ready), 1);
  const least = Math.min(...steps.map((s) => s.ready));
  return (
    <Row
      frame={frame} height={34} testid="ready-endpoints" id={name} title={name} label={alone ? "ready endpoints" : `ready ${name.split("/").at(-1)}`} summary={`Ready endpoints of ${name}: between ${least} and ${most}`}
      figures={<span class={least ? "faint" : "strong"}>least {least}</span>} inputs={[steps, gaps, now]}
      paint={(p) => {
        steps.forEach((s, i) => inView(p, s.at.latest, steps[i + 1]?.at.latest ?? now, (x0, x1) => paintReady(p, s.ready / most, s.ready, x0, x1)));
        for (const g of gaps) noData(p, p.scale.x(g.start), p.scale.x(g.end));
      }}
      tell={(at) => within(gaps, at) ? noWatch : plural(steps.findLast((s) => s.at.latest <= at)?.ready ?? 0, "ready endpoint")}
    />
  );
}

const laneHeight = 20;
const port = /:\d+$/;

/** changesIn tells whether a lane came to another state within a range. What was there when the run began did not come. */
const changesIn = ({ states, came, kind, exits }: Lane, { from, to }: Range): boolean =>
  states.some((s, i) => (i > 0 || (from > 0 && (came || kind !== "pod"))) && s.start >= from && s.start <= to) || !!exits?.some((e) => e.at >= from && e.at <= to);

/** Lanes shows the lanes of one sort that changed since the run began; of many at first only those in which something changed in the range in view. */
function Lanes({ what, frame, lanes, events, began, now }: { what: string; frame: Frame; lanes: Lane[]; events: Event[]; began: Ns; now: Ns }) {
  const range = useRested(frame);
  const many = lanes.length > few;
  const chosen = useMemo(() => lanes.filter((l) => (many ? changesIn(l, range) : changed(l, began))), [lanes, many, began, ...(many ? [range.from, range.to] : [])]);
  if (!lanes.length) return null;
  const when = many ? "in view" : "in the run";
  return (
    <Fold always all={lanes} chosen={chosen} others={(n) => `${plural(n, `${what} lane`)} without a change ${when}`} only={`what changes ${when}`} testid="all-lanes">
      {(shown) => (
        <Scrolled height={laneHeight} count={shown.length}>
          {(first, last) => shown.slice(first, last).map((l) => <LaneRow key={l.id} frame={frame} lane={l} events={events} now={now} />)}
        </Scrolled>
      )}
    </Fold>
  );
}

/** Scrolled is a list of equally tall rows in a box of its own, if they are too many for the page; only those in view are in the document. */
export function Scrolled({ height, count, children }: { height: number; count: number; children: (first: number, last: number) => ComponentChildren }) {
  const visible = useVisible<HTMLDivElement>(count, height);
  return (
    <div class="lanes" ref={visible.ref} onScroll={visible.onScroll}>
      <div style={{ height: `${count * height}px` }}>
        <div style={{ transform: `translateY(${visible.first * height}px)` }}>{children(visible.first, visible.last)}</div>
      </div>
    </div>
  );
}

/** LaneRow shows the states one node, Pod or endpoint went through. */
function LaneRow({ frame, lane, events, now }: { frame: Frame; lane: Lane; events: Event[]; now: Ns }) {
  const gaps = useMemo(() => watchGaps(events, lane), [events, lane]);
  const last = lane.states.at(-1)?.state ?? "";
  const codes = [...new Set(lane.exits?.filter((e) => e.code || !e.ending).map((e) => `exit ${e.code}`))].join(", ");
  return (
    <Row
      frame={frame} height={laneHeight} testid={`${lane.kind}-lane`} id={lane.id} title={lane.title}
      label={lane.kind === "endpoint" ? <span class="faint">└ {lane.label.replace(port, "")}<span class="kind">{port.exec(lane.label)}</span></span> : <><span class="kind">{lane.kind}</span> <b>{lane.label}</b> <span class="faint">{lane.note}</span></>}
      figures={<><span class="faint">{present(last) ? lookOf(last).label : last}</span>{codes && <span class={lane.exits?.some((e) => !e.ending) ? "strong" : "faint"}> {codes}</span>}</>}
      summary={`${lane.title}: ${lane.states.map((s) => s.state).join(", then ")}`}
      inputs={[lane.states, lane.states.length, gaps, now]}
      paint={(p) => paintLane(p, lane, gaps, now)}
      tell={(at) => {
        const reach = frame.scale.at(5) - frame.scale.at(0);
        const exit = lane.exits?.find((e) => Math.abs(e.at - at) <= reach);
        return stateAt(lane, gaps, at) + (exit ? `, exited with code ${exit.code}` : "");
      }}
    />
  );
}

function paintLane(p: Plot, lane: Lane, gaps: { start: Ns; end: Ns }[], now: Ns): void {
  lane.states.forEach((s, i) => {
    const end = lane.states[i + 1]?.start ?? now;
    if (present(s.state)) inView(p, s.start, end, (x0, x1) => bar(p, lookOf(s.state), x0, x1));
  });
  p.ctx.fillStyle = p.theme.text;
  for (const e of lane.exits ?? []) if (!e.ending) p.ctx.fillRect(p.scale.x(e.at) - 1.5, 1, 3, p.height - 2);
  for (const g of gaps) if (present(stateAt(lane, [], g.start))) noData(p, p.scale.x(g.start), p.scale.x(g.end));
}

/** inView draws a stretch if any of it is in view. */
function inView({ scale }: Plot, from: Ns, to: Ns, draw: (x0: number, x1: number) => void): void {
  if (to >= scale.range.from && from <= scale.range.to) draw(scale.x(from), scale.x(to));
}

const noWatch = "no data: watch gap";
const within = (gaps: { start: Ns; end: Ns }[], at: Ns): boolean => gaps.some((g) => g.start <= at && at <= g.end);

function stateAt(lane: Lane, gaps: { start: Ns; end: Ns }[], at: Ns): string {
  if (within(gaps, at)) return noWatch;
  const state = lane.states.findLast((s) => s.start <= at)?.state;
  return state === undefined ? "not there" : present(state) ? lookOf(state).label : state;
}

/** LanesOff names what could not be watched: an empty lane must not look like a quiet cluster. */
function LanesOff({ kinds }: { kinds?: string[] }) {
  if (!kinds?.length) return null;
  return <p class="note hatched" data-testid="lanes-off">Not watched, for want of rights: {kinds.join(", ")}</p>;
}
