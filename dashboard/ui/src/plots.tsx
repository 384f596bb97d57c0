import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Axis, Grid } from "./axis";
import { type Moment, pointOf } from "./evidence";
import { duration } from "./format";
import type { Incident, Ns, Window } from "./model";
import { failing } from "./opening";
import { middleInView, type Placed, placed } from "./placed";
import { rateChanges } from "./rates";
import type { Frame } from "./row";
import type { Run } from "./run";
import { ordered, pan, type Range, within, zoom } from "./scale";

/** What a reader can do with the time axis. */
export interface Gestures {
  onRange: (range: Range | undefined) => void;
  onMeasure: (stretch: Range | undefined) => void;
  onWindow: (w: Window) => void;
}

interface PlotsProps extends Gestures {
  frame: Frame;
  run: Run;
  whole: Range;
  steps: Moment[]; // what the evidence of the window in focus says happened
  measure: Range | undefined;
  pinned: Ns | undefined; // the selected event's instant
  disconnected: Range | undefined; // the time since the connection broke
  outer: RefObject<HTMLDivElement | null>;
  children: ComponentChildren;
}

type Mode = "zoom" | "measure" | "pan";
interface Drag { mode: Mode; x: number; at: Ns; range: Range; moved: boolean }

/** Plots holds the rows and what runs through all of them: the axis, the windows' shading, the cursor, and what the pointer drags. */
export function Plots(props: PlotsProps) {
  const { frame, run, outer, children } = props;
  const { scale, labelWidth } = frame;
  const selection = useRef<HTMLDivElement>(null);
  const pointer = usePointer(props, selection);
  const inside = { left: `${labelWidth}px`, width: `${scale.width}px` };
  return (
    <div class={frame.figuresWidth ? "plots" : "plots narrow"} ref={outer} data-testid="plots" {...pointer}>
      <CursorLine frame={frame} />
      <div class="under" style={inside} aria-hidden="true">
        <Grid frame={frame} now={run.live ? run.now : undefined} />
        <Bands frame={frame} incidents={run.incidents} windows={run.allWindows} />
        <StepLines frame={frame} steps={props.steps} />
        {rateChanges(run.targets).map((c) => <div key={c.at} class="band step-line rate-change" hidden={scale.x(c.at) < 0 || scale.x(c.at) > scale.width} style={{ left: `${scale.x(c.at)}px` }} />)}
      </div>
      <div class="axis-block">
        <Axis frame={frame} />
        <Marks frame={frame} windows={run.allWindows} onWindow={props.onWindow} />
        <Steps frame={frame} steps={props.steps} />
      </div>
      {children}
      <div class="over" style={inside}>
        {props.disconnected && <Disconnected frame={frame} stretch={props.disconnected} />}
        {props.pinned !== undefined && <div class="pinned" style={{ left: `${scale.x(props.pinned)}px` }} />}
        {props.measure && <Measured frame={frame} stretch={props.measure} onClear={() => props.onMeasure(undefined)} />}
        <div class="selection" ref={selection} hidden />
      </div>
    </div>
  );
}

/** usePointer turns what the pointer does on the plots into a cursor, a zoom, a pan or a measurement. */
function usePointer({ frame, whole, onRange, onMeasure }: PlotsProps, selection: RefObject<HTMLDivElement | null>) {
  const { scale, cursor, labelWidth } = frame;
  const drag = useRef<Drag | undefined>(undefined);
  const xOf = (e: MouseEvent): number => e.clientX - (e.currentTarget as Element).getBoundingClientRect().left - labelWidth;
  const inPlot = (x: number): boolean => x >= 0 && x <= scale.width;
  const stop = (): void => {
    drag.current = undefined;
    if (selection.current) selection.current.hidden = true;
  };
  useLayoutEffect(() => {
    const escape = (e: KeyboardEvent): void => {
      if (e.key !== "Escape" || !drag.current) return;
      e.stopPropagation();
      stop();
    };
    window.addEventListener("keydown", escape, true);
    return () => window.removeEventListener("keydown", escape, true);
  }, []);
  const show = (d: Drag, x: number): void => {
    const box = selection.current;
    if (!box) return;
    const [a, b] = [Math.min(d.x, x), Math.max(d.x, x)];
    box.hidden = false;
    box.className = `selection ${d.mode}`;
    Object.assign(box.style, { left: `${a}px`, width: `${b - a}px` });
    box.textContent = `Δ ${duration(Math.abs(scale.at(x) - d.at))}`;
  };
  return {
    onPointerDown(e: PointerEvent): void {
      const x = xOf(e);
      const on = e.target as Element;
      if (e.button !== 0 || !inPlot(x) || on.closest("button, select, summary, a")) return;
      const mode = on.closest(".axis") ? "pan" : e.shiftKey ? "measure" : "zoom";
      drag.current = { mode, x, at: scale.at(x), range: scale.range, moved: false };
    },
    onPointerMove(e: PointerEvent): void {
      const d = drag.current;
      const x = Math.min(Math.max(xOf(e), 0), scale.width);
      if (d && !(e.buttons & 1)) stop(); // let go where we could not see it
      else if (d && (d.moved || Math.abs(x - d.x) > 3)) {
        if (!d.moved) (e.currentTarget as Element).setPointerCapture(e.pointerId);
        d.moved = true;
        if (d.mode === "pan") onRange(pan(d.range, (d.x - x) / scale.width, whole));
        else show(d, x);
      }
      cursor.moveTo(inPlot(xOf(e)) || d ? scale.at(x) : undefined);
    },
    onPointerUp(e: PointerEvent): void {
      const d = drag.current;
      stop();
      if (!d?.moved || d.mode === "pan") return;
      const stretch = ordered(d.at, scale.at(Math.min(Math.max(xOf(e), 0), scale.width)));
      if (d.mode === "measure") onMeasure(stretch);
      else onRange(within(stretch, whole));
    },
    onPointerCancel: stop,
    onPointerLeave(): void { if (!drag.current) cursor.moveTo(undefined); },
    onWheel(e: WheelEvent): void {
      const x = xOf(e);
      if (!inPlot(x)) return;
      const sideways = e.shiftKey ? e.deltaX || e.deltaY : Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : 0;
      const zooms = e.ctrlKey || e.metaKey || e.altKey || (e.target as Element).closest(".axis");
      if (!sideways && !zooms) return; // the page scrolls
      e.preventDefault();
      if (sideways) onRange(pan(scale.range, sideways / scale.width, whole));
      else onRange(zoom(scale.range, Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), scale.at(x), whole));
    },
  };
}

/** CursorLine is the hairline through all rows, with the instant it stands at, and where a measurement by keyboard began. */
function CursorLine({ frame }: { frame: Frame }) {
  const line = useRef<HTMLDivElement>(null);
  const mark = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLDivElement>(null);
  const { scale, cursor, clock, labelWidth } = frame;
  const stand = (element: HTMLElement | null, at: Ns | undefined): number | undefined => {
    const x = at === undefined ? -1 : scale.x(at);
    const hidden = x < 0 || x > scale.width;
    if (element) element.hidden = hidden;
    if (hidden) return undefined;
    if (element) element.style.left = `${labelWidth + x}px`;
    return x;
  };
  useLayoutEffect(() => {
    const follow = (): void => {
      const x = stand(line.current, cursor.at);
      stand(mark.current, cursor.mark);
      line.current?.parentElement?.classList.toggle("pointing", x !== undefined);
      const box = readout.current;
      if (!box) return;
      box.hidden = x === undefined;
      if (x === undefined || cursor.at === undefined) return;
      const since = cursor.mark === undefined ? "" : `  Δ ${duration(Math.abs(cursor.at - cursor.mark))}`;
      box.textContent = `${clock.at(cursor.at)}  +${(cursor.at / 1e9).toFixed(3)} s${since}`;
      const right = x > scale.width - 190;
      box.style.left = `${labelWidth + x + (right ? -8 : 8)}px`;
      box.classList.toggle("leftwards", right);
    };
    const off = cursor.onMove(follow);
    cursor.refresh();
    return off;
  });
  return (
    <>
      <div class="hairline marked" ref={mark} hidden />
      <div class="hairline" ref={line} hidden />
      <div class="readout-row"><div class="readout" ref={readout} hidden data-testid="readout" /></div>
    </>
  );
}

interface BandsProps { frame: Frame; incidents: Incident[]; windows: Window[] }

/** Bands are two lines through all rows for each incident, from its first failed request to its last one. Of those that share a pixel one is drawn. */
function Bands({ frame: { scale }, incidents, windows }: BandsProps) {
  const inIncident = new Set(incidents.flatMap((i) => i.windows));
  const loose = windows.filter((w) => !inIncident.has(w.id)); // not put together yet
  const all = [...incidents.map((i) => ({ id: `incident-${i.id}`, kind: i.failed || i.cut ? "" : "slow", ...failing(i) })), ...loose.map((w) => ({ id: `window-${w.id}`, kind: w.kind, ...failing(w) }))];
  let taken = -1; // px
  return all.sort((a, b) => a.from - b.from).map(({ id, kind, from, to }) => {
    const [a, b] = [Math.max(scale.x(from), 0), Math.min(scale.x(to), scale.width)];
    if (b < 0 || a > scale.width || b < taken) return null;
    if (b - a < 1) taken = a + 1;
    return <div key={id} class={`band ${kind}`} data-testid="band" data-id={id} style={{ left: `${a}px`, width: `${Math.max(b - a, 1)}px` }} />;
  });
}

/** Disconnected covers the time since the connection broke: what happened then is not known here. */
function Disconnected({ frame: { scale }, stretch }: { frame: Frame; stretch: Range }) {
  const [a, b] = [Math.max(scale.x(stretch.from), 0), Math.min(scale.x(stretch.to), scale.width)];
  if (b <= a) return null;
  return <div class="unheard" data-testid="disconnected" style={{ left: `${a}px`, width: `${b - a}px` }}>disconnected</div>;
}

function Measured({ frame: { scale, clock }, stretch, onClear }: { frame: Frame; stretch: Range; onClear: () => void }) {
  const [a, b] = [scale.x(stretch.from), scale.x(stretch.to)];
  if (b < 0 || a > scale.width) return null;
  return (
    <div class="measured" data-testid="measured" style={{ left: `${a}px`, width: `${Math.max(b - a, 1)}px` }}>
      <span class="delta" title={`${clock.at(stretch.from)} to ${clock.at(stretch.to)}`}>
        Δ {duration(stretch.to - stretch.from)}
        <button type="button" aria-label="Clear the measurement" onClick={onClear}>×</button>
      </span>
    </div>
  );
}

const pill = 22; // px
const fewWindows = 50;

const rowsOf = (all: Placed<unknown>[]): number => all.reduce((rows, { level }) => Math.max(rows, level + 1), 1);

/** Marks are the windows' numbers over their places: buttons that zoom to them. */
function Marks({ frame: { scale, labelWidth }, windows, onWindow }: { frame: Frame; windows: Window[]; onWindow: (w: Window) => void }) {
  if (!windows.length) return null;
  const marks = placed(windows, (w) => middleInView(scale, failing(w)), pill, scale.width, windows.length > fewWindows ? 3 : 8, 6 * pill);
  return (
    <div class="marks" style={{ height: `${rowsOf(marks) * 18 + 4}px` }}>
      <span class="row-label faint" style={{ width: `${labelWidth}px` }}>windows</span>
      {marks.map(({ item: w, left, level }) => (
        <button
          type="button" key={w.id} class={`mark ${w.kind}`} data-testid="window-mark" data-window-id={w.id}
          style={{ left: `${labelWidth + left}px`, top: `${level * 18 + 2}px` }}
          title={`Window ${w.id}: ${w.target}, ${w.kind}. Click to zoom`} aria-label={`Zoom to window ${w.id}`} onClick={() => onWindow(w)}
        >{w.id}</button>
      ))}
    </div>
  );
}

const stepSize = 18; // px
const roomForText = 64; // px between two steps

/** Steps are the numbered evidence of the window in focus at its places, with the time between two where there is room for it. */
function Steps({ frame: { scale, labelWidth, clock }, steps }: { frame: Frame; steps: Moment[] }) {
  const timed = steps.filter((s) => s.at !== undefined);
  if (!timed.length) return null;
  const all = placed(timed, (s) => scale.x(pointOf(s.at!)), stepSize, scale.width, 4);
  return (
    <div class="marks steps" data-testid="steps" style={{ height: `${rowsOf(all) * 20 + 2}px` }}>
      <span class="row-label faint" style={{ width: `${labelWidth}px` }}>what happened</span>
      {all.map(({ item: s, x, left, level }, i) => {
        const next = all[i + 1];
        const room = level === 0 && next?.level === 0 ? next.left - left - stepSize : 0;
        return (
          <span key={s.number}>
            <b class="step" data-testid="step" data-step={s.number} title={`${clock.bracket(s.at!)} ${s.text}`} style={{ left: `${labelWidth + left}px`, top: `${level * 20 + 1}px` }}>{s.number}</b>
            {room > roomForText && <span class="between" style={{ left: `${labelWidth + left + stepSize}px`, width: `${room}px` }}><span>{duration(scale.at(next!.x) - scale.at(x))}</span></span>}
          </span>
        );
      })}
    </div>
  );
}

/** StepLines lead the eye from a step down through the rows. */
function StepLines({ frame: { scale }, steps }: { frame: Frame; steps: Moment[] }) {
  return steps.filter((s) => s.at !== undefined).map((s) => {
    const x = scale.x(pointOf(s.at!));
    return <div key={s.number} class="band step-line" hidden={x < 0 || x > scale.width} style={{ left: `${x}px` }} />;
  });
}
