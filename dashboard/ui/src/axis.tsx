import { useLayoutEffect, useRef } from "preact/hooks";
import { type Frame, prepare } from "./row";
import type { Ns } from "./model";
import { ticks } from "./scale";

// What moves with every step of a pan or a zoom is drawn, and is no element: where an element moves, the browser sorts all of
// the page's layers anew, and each row's canvas is one. Drawing on a canvas costs only itself.

const apart = 90; // px between two ticks at least
const axisHeight = 22;

/** Axis is the times of day over the rows. */
export function Axis({ frame }: { frame: Frame }) {
  const { scale, clock, labelWidth, theme } = frame;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const ctx = prepare(canvas.current, scale.width + labelWidth, axisHeight);
    if (!ctx) return;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (const t of ticks(scale, clock, apart)) {
      const text = clock.at(t.at, t.digits);
      if (scale.x(t.at) + ctx.measureText(text).width / 2 > scale.width) continue; // half a time of day is another one
      ctx.fillStyle = theme.faint;
      ctx.fillText(text, labelWidth + scale.x(t.at), axisHeight / 2);
    }
    ctx.clearRect(0, 0, labelWidth - 30, axisHeight); // the zone's name stands there
  }, [scale, clock, labelWidth, theme]);
  return (
    <div class="axis" data-testid="axis" title="Drag to pan, turn the wheel to zoom">
      <b class="row-label faint" style={{ width: `${labelWidth}px` }}>{clock.name}</b>
      <canvas ref={canvas} aria-hidden="true" style={{ width: `${scale.width + labelWidth}px`, height: `${axisHeight}px` }} />
    </div>
  );
}

/** Grid is a line through all rows at each tick, and one at the end of what is known of a run that goes on. Its picture is one pixel high, and stretched. */
export function Grid({ frame, now }: { frame: Frame; now: Ns | undefined }) {
  const { scale, clock, theme } = frame;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const ctx = prepare(canvas.current, scale.width, 1);
    if (!ctx) return;
    ctx.fillStyle = theme.grid;
    for (const t of ticks(scale, clock, apart)) ctx.fillRect(Math.round(scale.x(t.at)), 0, 1, 1);
    ctx.fillStyle = theme.ok;
    if (now !== undefined) ctx.fillRect(Math.round(scale.x(now)), 0, 1, 1);
  }, [scale, clock, theme, now]);
  return <canvas class="grid" data-testid="grid" ref={canvas} style={{ width: `${scale.width}px` }} />;
}
