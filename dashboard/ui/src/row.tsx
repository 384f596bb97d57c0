import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useNear } from "./hooks";
import type { Clock } from "./clock";
import type { Cursor, Tell } from "./cursor";
import type { Context, Plot, Theme } from "./paint";
import type { Range, Scale } from "./scale";

/** What all rows of the timeline share: how they look, and the part of the run that they show. A step of a pan or a zoom draws the rows anew, and renders none. */
export class Frame {
  private readonly rows = new Set<() => void>();

  constructor(
    public scale: Scale, readonly theme: Theme, readonly clock: Clock, readonly cursor: Cursor, readonly labelWidth: number, readonly figuresWidth: number,
    readonly lazy: boolean, // rows are drawn when they are near the screen
  ) {}

  /** draw has all rows draw what the scale shows now. */
  draw(): void { for (const row of this.rows) row(); }

  /** onDraw calls row whenever another part of the run is shown; the returned function ends that. */
  onDraw(row: () => void): () => void {
    this.rows.add(row);
    return () => this.rows.delete(row);
  }
}

const rest = 150; // ms without a step after which a pan or a zoom is over

/** useRested is the part of the run that is shown, once that has come to rest: what is listed by it stays as it is while the reader pans. */
export function useRested(frame: Frame): Range {
  const [range, setRange] = useState(frame.scale.range);
  useLayoutEffect(() => {
    let timer = 0;
    const take = (): void => setRange((r) => (r.from === frame.scale.range.from && r.to === frame.scale.range.to ? r : frame.scale.range));
    take();
    const off = frame.onDraw(() => {
      clearTimeout(timer);
      timer = window.setTimeout(take, rest);
    });
    return () => {
      clearTimeout(timer);
      off();
    };
  }, [frame]);
  return range;
}

const [twoLines, tallest] = [30, 40]; // px: taller rows have more in their labels

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
  const beneath = frame.figuresWidth === 0 && height >= twoLines && height <= tallest; // there is no room for figures at the right
  const canvas = useRef<HTMLCanvasElement>(null);
  const told = useRef<HTMLSpanElement>(null);
  const near = useNear(canvas, frame.lazy);
  const { width } = frame.scale;
  useLayoutEffect(() => (told.current && tell ? frame.cursor.tellIn(told.current, tell) : undefined));
  const drawn = useRef<Scale>(undefined); // what the canvas shows
  const draw = useRef(() => {});
  draw.current = () => {
    if (drawn.current === frame.scale) return;
    drawn.current = frame.scale;
    const ctx = prepare(canvas.current, frame.scale.width, height);
    if (ctx) paint({ ctx, scale: frame.scale, height, theme: frame.theme });
  };
  useLayoutEffect(() => {
    if (!near) return;
    drawn.current = undefined;
    draw.current();
  }, [near, near && frame, height, ...(near ? props.inputs : props.inputs.map(() => undefined))]);
  useLayoutEffect(() => (near ? frame.onDraw(() => draw.current()) : undefined), [near, frame]);
  return (
    <div class={height < twoLines ? "row" : "row tall"} data-row data-testid={props.testid} data-id={props.id} style={{ height: `${height}px` }}>
      <div class="row-label" title={props.title} style={{ width: `${frame.labelWidth}px` }}>{props.label}{beneath && <span class="beneath">{props.figures}</span>}</div>
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
