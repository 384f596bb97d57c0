import type { Length, Ns } from "./model";

const MS = 1e6;
const S = 1e9;

/** A no-break space: figure and unit stay together. */
const sp = "\u00a0";

const units: { name: string; ns: number; from: number }[] = [
  { name: "s", ns: S, from: S },
  { name: "ms", ns: MS, from: MS },
  { name: "µs", ns: 1e3, from: 0 },
];
const unitOf = (d: Ns) => units.find((u) => Math.abs(d) >= u.from)!;

/** duration writes a length of time in three digits: "1.9 ms", "82 ms", "3.09 s", "4 min 05 s". */
export function duration(d: Ns, round = Math.round): string {
  if (d === 0) return `0${sp}s`;
  if (Math.abs(d) >= 60 * S) return minutes(d, round);
  const unit = unitOf(d);
  const v = d / unit.ns;
  const digits = Math.abs(v) < 10 ? (unit.ns === S ? 2 : 1) : Math.abs(v) < 100 && unit.ns === S ? 1 : 0;
  return `${rounded(v, digits, round).toFixed(digits)}${sp}${unit.name}`;
}

// What floating point adds in the last place shall not turn a figure over.
const up = (v: number) => Math.ceil(v - 1e-9);
const down = (v: number) => Math.floor(v + 1e-9);

const rounded = (v: number, digits: number, round: (v: number) => number) => round(v * 10 ** digits) / 10 ** digits;

function minutes(d: Ns, round: (v: number) => number): string {
  const s = round(d / S);
  const h = Math.floor(s / 3600);
  const rest = `${String(Math.floor(s / 60) % 60).padStart(h ? 2 : 1, "0")}${sp}min`;
  return h ? `${h}${sp}h${sp}${rest}` : `${rest}${sp}${String(s % 60).padStart(2, "0")}${sp}s`;
}

/**
 * length writes an uncertain length as its middle and half its width, "82 ms ±9", or as its bounds where these are far apart,
 * "1.2 ms to 48 ms". Of an open one only the lower bound is known.
 */
export function length(l: Length, open = false): string {
  if (open) return l.min > 0 ? `≥ ${duration(l.min, down)}` : unknownLength; // never more than is known
  if (l.min <= 0 && l.max > 0) return `< ${duration(l.max, up)}`;
  if (l.max > 3 * l.min) return `${duration(l.min, down)} to ${duration(l.max, up)}`;
  const mid = (l.min + l.max) / 2;
  const half = (l.max - l.min) / 2;
  if (mid === 0 && half === 0) return `0${sp}s`;
  const unit = unitOf(mid);
  const digits = half >= unit.ns * 10 ? 0 : half >= unit.ns ? (unit.ns === S ? 1 : 0) : half >= unit.ns / 10 ? 1 : unit.ns === S ? 2 : 1;
  const shown = rounded(mid / unit.ns, digits, Math.round);
  const spread = half / unit.ns + Math.abs(mid / unit.ns - shown);
  return `${shown.toFixed(digits)}${sp}${unit.name} ±${rounded(spread, digits, up).toFixed(digits)}`;
}

/** unknownLength is the length of what nothing bounds. */
export const unknownLength = "unknown";

/** relative writes the time between at and zero: "T−412 ms", "T+0", "T+1.20 s". */
export function relative(at: Ns, zero: Ns): string {
  const d = Math.round((at - zero) / 1e5) * 1e5;
  if (d === 0) return "T+0";
  const value = Math.abs(d) >= S && Math.abs(d) < 60 * S ? `${(Math.abs(d) / S).toFixed(3)}${sp}s` : duration(Math.abs(d));
  return `T${d < 0 ? "−" : "+"}${value}`;
}

/** percent writes a share so that neither a small one reads as none nor a nearly full one as full. */
export function percent(share: number): string {
  if (share === 0 || share === 1) return `${share * 100}${sp}%`;
  const p = share * 100;
  if (p < 0.01) return `<${sp}0.01${sp}%`;
  if (p > 99.99) return `>${sp}99.99${sp}%`;
  const digits = p < 10 || p > 99 ? 2 : 1;
  const round = p < 1 ? up : p > 99 ? down : Math.round;
  return `${rounded(p, digits, round).toFixed(digits)}${sp}%`;
}

/** coverage writes which share of the time was observed, rounded down: what falls short of 99 % must not read as 99 %. */
export function coverage(share: number): string {
  const p = rounded(share * 100, 2, down);
  return `${p.toFixed(p === 100 || p === 0 ? 0 : 2)}${sp}%`;
}

/** atMost writes an upper bound, rounded up. */
export const atMost = (d: Ns): string => duration(d, up);

const grouped = new Intl.NumberFormat("en-US");

/** count groups thousands. */
export const count = (n: number): string => grouped.format(n);

export const rate = (perSecond: number): string => (perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toString());

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)}${sp}${n === 1 ? one : many}`;

/** shortPod is the part of a Pod's name that tells it from its siblings. */
export const shortPod = (name: string): string => /-([a-z0-9]{5})$/.exec(name)?.[1] ?? name;
