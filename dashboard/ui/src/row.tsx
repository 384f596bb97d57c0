import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useNear } from "./hooks";
import type { Clock } from "./clock";
import type { Cursor, Tell } from "./cursor";
import type { Context, Plot, Theme } from "./paint";
import type { Scale } from "./scale";

/** What all rows of the timeline share. */
export interface Frame { scale: Scale; theme: Theme; clock: Clock; cursor: Cursor; labelWidth: number; figuresWidth: number; lazy: boolean /* rows are drawn when they are near the screen */ }

interface RowProps {
  frame: Frame;
  height: number;
  label: ComponentChildren;
  title?: string;
  figures?: ComponentChildren;
  testid: string;
  id?: string;
  summary: string; // the row in words, for those who cannot see it
  inputs: unknown[]; // what paint draws: the row is drawn again when one of them changes
  paint: (plot: Plot) => void;
  tell?: Tell; // the row at an instant, shown in place of its figures while there is a cursor
}

/** Row is one line of the timeline: a label, a plot on the shared time axis, and figures. */
export function Row(props: RowProps) {
  const { frame, height, paint, tell } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const told = useRef<HTMLSpanElement>(null);
  const near = useNear(canvas, frame.lazy);
  const { range, width } = frame.scale;
  useLayoutEffect(() => (told.current && tell ? frame.cursor.tellIn(told.current, tell) : undefined));
  useLayoutEffect(() => {
    if (!near) return;
    const ctx = prepare(canvas.current, width, height);
    if (ctx) paint({ ctx, scale: frame.scale, height, theme: frame.theme });
  }, [near, near && range.from, near && range.to, near && width, height, near && frame.theme, ...(near ? props.inputs : props.inputs.map(() => undefined))]);
  return (
    <div class="row" data-row data-testid={props.testid} data-id={props.id} style={{ height: `${height}px` }}>
      <div class="row-label" title={props.title} style={{ width: `${frame.labelWidth}px` }}>{props.label}</div>
      <canvas ref={canvas} role="img" aria-label={props.summary} style={{ width: `${width}px`, height: `${height}px` }} />
      <div class="row-figures" style={{ width: `${frame.figuresWidth}px` }}>
        <span class="totals">{props.figures}</span>
        <span class="told" ref={told} aria-hidden="true" />
      </div>
    </div>
  );
}

/** prepare gives a canvas its size in device pixels and clears it. */
export function prepare(canvas: HTMLCanvasElement | null, width: number, height: number): Context | null | undefined {
  if (!canvas || width <= 0) return null;
  const density = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const ctx = canvas.getContext("2d");
  ctx?.setTransform(density, 0, 0, density, 0, 0);
  ctx?.clearRect(0, 0, width, height);
  return ctx;
}
