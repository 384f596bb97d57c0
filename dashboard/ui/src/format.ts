import type { Length, Ns } from "./model";

// How lengths of time, shares and counts read: as correlate/quantity writes them in the terminal and in the reports. A test holds the
// two together by its examples.

const MS = 1e6;
const S = 1e9;
const MIN = 60 * S;

/** A no-break space: figure and unit stay together. */
const sp = "\u00a0";

type Round = (d: Ns, step: Ns) => Ns;

const nearest: Round = (d, step) => Math.round(d / step) * step;
const down: Round = (d, step) => d - (d % step);
const up: Round = (d, step) => down(d + step - 1, step);

const unitOf = (d: Ns): [size: Ns, name: string] => (d === 0 || d >= S ? [S, "s"] : d < MS ? [1e3, "µs"] : [MS, "ms"]);

/** powerOfTen is the largest power of ten not above d, and at least 1. */
function powerOfTen(d: Ns): Ns {
  let power = 1;
  while (power * 10 <= d) power *= 10;
  return power;
}

const thirdDigit = (d: Ns): Ns => Math.max(powerOfTen(Math.abs(d)) / 100, 1);

/** duration writes a known length of time: "1.9 ms", "3.09 s", "4 min 5 s". */
export const duration = (d: Ns): string => span(d, nearest);

/** atLeast and atMost write a length that is a lower or an upper bound, rounded down or up. */
export const atLeast = (d: Ns): string => span(d, down);
export const atMost = (d: Ns): string => span(d, up);

/** span writes what round leaves of d: three digits, from two minutes on whole seconds, from an hour on whole minutes. */
function span(exact: Ns, round: Round): string {
  if (exact < 0) return `-${span(-exact, round)}`;
  const d = Math.round(exact);
  const seconds = round(d, S);
  if (seconds < 2 * MIN) {
    const shown = round(d, thirdDigit(d));
    const [size, name] = unitOf(shown);
    return `${shown / size}${sp}${name}`;
  }
  if (seconds < 60 * MIN) return `${Math.floor(seconds / MIN)}${sp}min${sp}${(seconds % MIN) / S}${sp}s`;
  const minutes = round(d, MIN) / MIN;
  return `${Math.floor(minutes / 60)}${sp}h${sp}${minutes % 60}${sp}min`;
}

/**
 * length writes an uncertain length as its middle and half its width, "82 ms ±9", or as its bounds where these are far apart,
 * "1.2 ms to 48 ms". Of an open one only the lower bound is known.
 */
export function length({ min, max }: Length, open = false): string {
  if (open) return min > 0 ? `≥ ${atLeast(min)}` : unknownLength;
  if (max <= 0) return `0${sp}s`;
  if (min <= 0) return `≤ ${atMost(max)}`;
  if (max > 3 * min) return `${atLeast(min)} to ${atMost(max)}`;
  return min === max ? duration(min) : withError(min, max);
}

function withError(min: Ns, max: Ns): string {
  const middle = min + Math.floor((max - min) / 2);
  let step = powerOfTen(max - middle);
  if (max - middle < 2 * step && (max - middle) % step !== 0) step /= 10; // ±12 says more than ±20
  step = Math.max(step, thirdDigit(middle), 1);
  const shown = nearest(middle, step);
  const half = up(Math.max(max - shown, shown - min), step);
  const [size, name] = unitOf(Math.max(shown, half));
  const decimals = Math.max(0, Math.round(Math.log10(size / step)));
  return `${(shown / size).toFixed(decimals)}${sp}${name} ±${(half / size).toFixed(decimals)}`;
}

/** unknownLength is the length of what nothing bounds. */
export const unknownLength = "unknown";

/** relative writes the time between at and zero: "T−412 ms", "T+0", "T+1.200 s". */
export function relative(at: Ns, zero: Ns): string {
  const d = Math.round((at - zero) / 1e5) * 1e5;
  if (d === 0) return "T+0";
  const value = Math.abs(d) >= S && Math.abs(d) < MIN ? `${(Math.abs(d) / S).toFixed(3)}${sp}s` : duration(Math.abs(d));
  return `T${d < 0 ? "−" : "+"}${value}`;
}

/**
 * percent writes a share with two digits, and so that it is never nicer than the truth: only 0 is "0 %", only 1 is "100 %", a share
 * below 1 % is rounded up, and one above 99 % is rounded down and has two decimals.
 */
export function percent(share: number): string {
  const p = share * 100;
  if (p <= 0) return `0${sp}%`;
  const decimals = p > 99 && p < 100 ? 2 : Math.max(0, Math.floor(-Math.log10(p)) + 2);
  const scale = 10 ** decimals;
  let figure = p * scale;
  if (Math.abs(figure - Math.round(figure)) < 1e-6) figure = Math.round(figure); // what floating point adds shall not turn it over
  if (share < 0.01) figure = Math.ceil(figure);
  else if (share > 0.99 && share < 1) figure = Math.min(Math.floor(figure), 9999);
  return `${decimal(Math.round(figure) / scale, decimals)}${sp}%`;
}

/** coverage writes which share of the time was observed, rounded down: what falls short of 99 % must not read as 99 %. */
export const coverage = (share: number): string => `${decimal(Math.floor(share * 1e4 + 1e-6) / 100, 2)}${sp}%`;

/** number writes a rate with one decimal at most, and less than one with two digits: 0.01 is not 0. */
export const number = (x: number): string => (x < 1 ? String(Number(x.toPrecision(2))) : decimal(x, 1));

/** decimal writes x with so many decimals at most. */
function decimal(x: number, decimals: number): string {
  const text = x.toFixed(decimals);
  return decimals ? text.replace(/\.?0+$/, "") : text;
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${n}${sp}${n === 1 ? one : many}`;

/** classCounts writes failures by class, the most frequent first: "20 refused, 1 reset". */
export const classCounts = (classes: Record<string, number>): string =>
  Object.entries(classes).filter(([, n]) => n > 0).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name, n]) => `${n}${sp}${name}`).join(", ");

/** classList names the classes of failures, the most frequent first. How many there are of a single one stands beside it. */
export function classList(classes: Record<string, number>): string {
  const names = Object.keys(classes);
  return names.length === 1 ? names[0]! : classCounts(classes);
}

/** glued keeps the figures and the units of a sentence together. */
export const glued = (text: string): string => text.replace(/(\d) (?=(?:µs|ms|s|min|h|%)(?![\w%]))/g, `$1${sp}`);

/** worstOf says of how many judged targets a figure is the worst one's; nothing if there is one only. */
export function worstOf(judged: number): string {
  return judged > 1 ? `The value of the worst of ${judged} targets. Only failed requests add over targets.` : "";
}

/** shortPod is the part of a Pod's name, which may be NAMESPACE/NAME, that tells it from its siblings. */
export const shortPod = (name: string): string => /-([a-z0-9]{5})$/.exec(name)?.[1] ?? name.slice(name.indexOf("/") + 1);

const mostShown = 20; // characters of a name
const ending = 8;

/** middleCut leaves out the middle of a long name: the ends tell it from others. */
export const middleCut = (name: string): string => (name.length > mostShown ? `${name.slice(0, mostShown - ending - 1)}…${name.slice(-ending)}` : name);
