import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Ns } from "./model";
import type { Context, Plot, Theme } from "./paint";
import type { Scale } from "./scale";

/** What all rows of the timeline share. */
export interface Frame { scale: Scale; theme: Theme; labelWidth: number; figuresWidth: number }

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
  describe?: (at: Ns) => string; // the row at an instant, shown beside the pointer
}

/** What a row says of an instant; the timeline asks for it when the pointer is over the row. */
export const describers = new WeakMap<Element, (at: Ns) => string>();

/** Row is one line of the timeline: a label, a plot on the shared time axis, and figures. */
export function Row(props: RowProps) {
  const { frame, height, paint, describe } = props;
  const row = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (row.current && describe) describers.set(row.current, describe);
  });
  const { range, width } = frame.scale;
  useLayoutEffect(() => {
    const ctx = prepare(canvas.current, width, height);
    if (ctx) paint({ ctx, scale: frame.scale, height, theme: frame.theme });
  }, [range.from, range.to, width, height, frame.theme, ...props.inputs]);
  return (
    <div class="row" ref={row} data-row data-testid={props.testid} data-id={props.id} style={{ height: `${height}px` }}>
      <div class="row-label" title={props.title} style={{ width: `${frame.labelWidth}px` }}>{props.label}</div>
      <canvas ref={canvas} role="img" aria-label={props.summary} style={{ width: `${width}px`, height: `${height}px` }} />
      <div class="row-figures" style={{ width: `${frame.figuresWidth}px` }}>{props.figures}</div>
    </div>
  );
}

/** prepare gives the canvas its size in device pixels and clears it. */
function prepare(canvas: HTMLCanvasElement | null, width: number, height: number): Context | null | undefined {
  if (!canvas || width <= 0) return null;
  const density = devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const ctx = canvas.getContext("2d");
  ctx?.scale(density, density);
  return ctx;
}
