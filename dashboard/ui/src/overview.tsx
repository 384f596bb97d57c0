import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { dragged, type Grip, grip } from "./brush";
import type { Clock } from "./clock";
import { duration } from "./format";
import { useWidth } from "./hooks";
import type { Ns } from "./model";
import { commandLine, type Plot, type Theme } from "./paint";
import { prepare } from "./row";
import type { Run } from "./run";
import { type Range, Scale, zoom } from "./scale";
import { groups, type Together, worstOfAll } from "./slots";
import { Bars, measured } from "./strips";

const height = 26;
const cursors: Record<Grip, string> = { from: "ew-resize", to: "ew-resize", move: "grab", new: "crosshair" };

interface OverviewProps { run: Run; range: Range; whole: Range; theme: Theme; clock: Clock; onRange: (range: Range | undefined) => void }

/** Overview shows the whole run in one line with a scale of its own: the worst of each moment, and which part of it the rows below show. */
export function Overview({ run, range, whole, theme, clock, onRange }: OverviewProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const brush = useRef<HTMLCanvasElement>(null);
  const drag = useRef<{ grip: Grip; start: Ns; range: Range; x: number } | undefined>(undefined);
  const scale = new Scale(whole, width);
  const targets = run.together;
  const known = useMemo(() => knownTo(run), [run.groupList, run.now]);
  const command = run.info?.command;
  useLayoutEffect(() => {
    const ctx = prepare(canvas.current, width, height);
    if (!ctx) return;
    const plot: Plot = { ctx, scale, height, theme };
    paint(plot, targets, run.bucketWidth, known);
    if (command?.start !== undefined) commandLine(plot, scale.x(command.start), scale.x(command.end ?? run.now));
  }, [whole.from, whole.to, width, theme, run.bucketWidth, run.now, known, command?.start, command?.end, targets]);

  const a = Math.max(scale.x(range.from), 0);
  const b = Math.min(scale.x(range.to), width);
  const all = range.from <= whole.from && range.to >= whole.to;
  useLayoutEffect(() => {
    const ctx = prepare(brush.current, width, height);
    if (ctx) paintBrush({ ctx, scale, height, theme }, a, b);
  }, [a, b, width, theme, all]);
  const xOf = (e: PointerEvent): number => e.clientX - (e.currentTarget as Element).getBoundingClientRect().left;
  const down = (e: PointerEvent): void => {
    if (e.button !== 0) return;
    const x = xOf(e);
    drag.current = { grip: grip(x, a, b, all), start: scale.at(x), range, x };
    (e.currentTarget as Element).setPointerCapture(e.pointerId);
    e.preventDefault();
  };
  const move = (e: PointerEvent): void => {
    const [d, x] = [drag.current, xOf(e)];
    (e.currentTarget as HTMLElement).style.cursor = cursors[d?.grip ?? grip(x, a, b, all)];
    if (d && Math.abs(x - d.x) > 3) onRange(dragged(d.grip, d.range, d.start, scale.at(Math.min(Math.max(x, 0), width)), whole));
  };
  const up = (): void => { drag.current = undefined; };
  const wheel = (e: WheelEvent): void => {
    e.preventDefault();
    onRange(zoom(range, Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), (range.from + range.to) / 2, whole));
  };
  return (
    <div class="overview" data-testid="overview">
      <div class="brushed" ref={box} onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={up} onWheel={wheel} onDblClick={() => onRange(undefined)}>
        <canvas ref={canvas} role="img" aria-label="The whole run, the worst target's state at each moment" style={{ width: `${width}px`, height: `${height}px` }} />
        {!all && <canvas class="brush" data-testid="brush" ref={brush} style={{ width: `${width}px`, height: `${height}px` }} />}
      </div>
      <div class="overview-scale faint"><span>{clock.at(whole.from, 0)}</span><span>whole run, {duration(whole.to - whole.from)}; {all ? "drag to zoom" : "drag to move"}</span><span>{clock.at(whole.to, 0)}</span></div>
    </div>
  );
}

/** knownTo is up to when outcomes are known; later ones are still to come. */
const knownTo = (run: Run): Ns => run.groupList.reduce((to, g) => Math.max(to, g.measured ? Math.min(g.measured.latest || run.now, run.now) : 0, ...g.members.map((t) => measured(t, run.now).to)), 0);

/** paint draws the worst judged target: failing before not observed, and that before healthy. */
function paint(plot: Plot, all: Together, slot: Ns, end: Ns): void {
  const bars = new Bars(plot);
  groups(plot.scale, slot, 0, end, (first, n) => {
    const share = worstOfAll(all, first, n);
    const gap = all.gap.slice(first, first + n).some((g) => g);
    bars.add(first * slot, Math.min((first + n) * slot, end), share || !gap ? share : undefined);
  });
  bars.flush();
}

/** paintBrush frames the part in view, and dims the rest. */
function paintBrush({ ctx, scale, height, theme }: Plot, a: number, b: number): void {
  ctx.fillStyle = `${theme.panel}9e`;
  ctx.fillRect(0, 0, a, height);
  ctx.fillRect(b, 0, scale.width - b, height);
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(a + 0.75, 0.75, Math.max(b - a - 1.5, 0.5), height - 1.5);
}
