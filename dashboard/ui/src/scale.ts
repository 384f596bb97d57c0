import type { Clock } from "./clock";
import type { Ns } from "./model";

/** A stretch of the time axis. */
export interface Range { from: Ns; to: Ns }

/** Scale places instants on a plot of a given width, the same for every row. */
export class Scale {
  constructor(readonly range: Range, readonly width: number) {}
  x(at: Ns): number { return ((at - this.range.from) / (this.range.to - this.range.from)) * this.width; }
  at(x: number): Ns { return this.range.from + (x / this.width) * (this.range.to - this.range.from); }
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * 1e6)
  .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400].map((n) => n * 1e9));

export interface Tick { at: Ns; digits: number }

/** ticks returns round times of day in range, at least `apart` pixels from each other. */
export function ticks(scale: Scale, clock: Clock, apart: number): Tick[] {
  const { from, to } = scale.range;
  const wanted = ((to - from) * apart) / scale.width;
  const step = steps.find((s) => s >= wanted) ?? Math.ceil(wanted / 86400e9) * 86400e9;
  const offset = clock.sinceRound(step);
  const all: Tick[] = [];
  const digits = step >= 1e9 ? 0 : step >= 1e8 ? 1 : step >= 1e7 ? 2 : 3;
  for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to; at += step) all.push({ at, digits });
  return all;
}

/** wholeRun is the range that shows everything. While live it grows in steps, so that the axis mostly rests. */
export function wholeRun(now: Ns, live: boolean): Range {
  if (!live) return { from: 0, to: Math.max(now, 1e6) };
  const step = steps.find((s) => s >= now / 4 && s >= 10e9) ?? 86400e9;
  return { from: 0, to: Math.ceil((now * 1.02 + 1) / step) * step };
}

const closest = 1e6; // ns: nothing is worth seeing from nearer

/** within keeps a range from leaving the run behind, or from becoming too short to show anything. */
export function within({ from, to }: Range, whole: Range): Range {
  const length = whole.to - whole.from;
  const width = Math.min(Math.max(to - from, closest), length * 1.2);
  const middle = Math.min(Math.max((from + to) / 2, whole.from), whole.to);
  return { from: middle - width / 2, to: middle + width / 2 };
}

/** pan moves a range by a share of its own length. */
export function pan({ from, to }: Range, share: number, whole: Range): Range {
  const by = (to - from) * share;
  return within({ from: from + by, to: to + by }, whole);
}

/** zoom makes a range longer by a factor; what is shown at an instant stays in its place. */
export function zoom({ from, to }: Range, factor: number, about: Ns, whole: Range): Range {
  const wanted = (to - from) * factor;
  const width = Math.min(Math.max(wanted, closest), (whole.to - whole.from) * 1.2);
  const share = (about - from) / (to - from);
  return within({ from: about - width * share, to: about + width * (1 - share) }, whole);
}

/** ordered is the range between two instants, whichever comes first. */
export const ordered = (a: Ns, b: Ns): Range => ({ from: Math.min(a, b), to: Math.max(a, b) });

/** around is the range that shows a stretch with some of its surroundings. */
export function around(from: Ns, to: Ns): Range {
  const margin = Math.max((to - from) * 1.5, 50e6);
  return { from: from - margin, to: to + margin };
}

/** inside is a range moved, and shortened if it has to be, so that it shows nothing before or after the run. */
export function inside({ from, to }: Range, whole: Range): Range {
  const width = Math.min(Math.max(to - from, closest), whole.to - whole.from);
  const start = Math.min(Math.max(from, whole.from), whole.to - width);
  return { from: start, to: start + width };
}
