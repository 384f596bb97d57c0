import type { Range, Scale } from "./scale";

/** A Placed is something small at a place of the axis, on the first level where there is room for it. */
export interface Placed<T> { item: T; x: number; left: number; level: number }

/**
 * placed puts items of a width at their places, or up to `aside` pixels to the right of them, on as many levels as it takes and no more
 * than so many: what finds no room is left out, until zooming makes some.
 */
export function placed<T>(items: T[], xOf: (item: T) => number | undefined, size: number, plot: number, levels: number, aside = 0): Placed<T>[] {
  const ends: number[] = []; // where each level is taken up to
  return items.flatMap((item) => {
    const x = xOf(item);
    if (x === undefined || x < 0 || x > plot) return [];
    const wanted = Math.min(Math.max(x - size / 2, 0), plot - size);
    const free = ends.findIndex((end) => end <= Math.min(wanted + aside, plot - size));
    const level = free >= 0 ? free : ends.length;
    if (level >= levels) return [];
    const left = Math.max(wanted, ends[level] ?? 0);
    ends[level] = left + size + 2;
    return [{ item, x, left, level }];
  });
}

/** middleInView is the middle of what is in view of a stretch, in pixels; undefined if nothing is. */
export function middleInView(scale: Scale, { from, to }: Range): number | undefined {
  const [a, b] = [scale.x(from), scale.x(to)];
  return b < 0 || a > scale.width ? undefined : (Math.max(a, 0) + Math.min(b, scale.width)) / 2;
}
