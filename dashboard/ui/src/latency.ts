import type { Ns, Series } from "./model";

// Latency histograms are counted in log-linear slots over whole microseconds (model.LatencyBin): 0 to 7 hold one
// each, then eight slots divide every octave.

/** slotOf is the slot a latency belongs to. */
export function slotOf(latency: Ns): number {
  const us = Math.floor(Math.max(latency, 0) / 1e3);
  if (us < 8) return us;
  const e = Math.floor(Math.log2(us));
  return 8 * (e - 2) + (Math.floor(us / 2 ** (e - 3)) & 7);
}

/** above is where a slot ends: the least latency that is greater than all in it. */
export function above(slot: number): Ns {
  if (slot < 8) return (slot + 1) * 1e3;
  return (9 + (slot % 8)) * 2 ** (Math.floor(slot / 8) - 1) * 1e3;
}

/** A Histogram counts answers by latency slot. */
export interface Histogram { counts: Uint32Array; total: number; most: number }

/** histogram adds up a group of a target's slots. */
export function histogram(series: Series, first: number, count: number): Histogram {
  const parts = series.latency.slice(first, first + count);
  const counts = new Uint32Array(Math.max(0, ...parts.map((pairs) => (pairs?.at(-2) ?? -1) + 1)));
  for (const pairs of parts) {
    if (!pairs) continue;
    for (let k = 0; k + 1 < pairs.length; k += 2) counts[pairs[k]!]! += pairs[k + 1]!;
  }
  let [total, most] = [0, 0];
  for (const n of counts) {
    total += n;
    most = Math.max(most, n);
  }
  return { counts, total, most };
}

/** quantile is the slot in which the q-th part of a histogram's answers ends, undefined if it holds none. */
export function quantile({ counts, total }: Histogram, q: number): number | undefined {
  let left = Math.max(1, Math.ceil(total * q));
  if (!total) return undefined;
  for (let slot = 0; slot < counts.length; slot++) {
    left -= counts[slot] ?? 0;
    if (left <= 0) return slot;
  }
  return undefined;
}

const rarest = 0.001;

/** extent is where a series' latencies lie: from the slot that all but the fastest in a thousand reach up to the slowest. */
export function extent(series: Series): { low: number; high: number } | undefined {
  const all = histogram(series, 0, series.latency.length);
  const low = quantile(all, rarest);
  return low === undefined ? undefined : { low, high: all.counts.length - 1 };
}
