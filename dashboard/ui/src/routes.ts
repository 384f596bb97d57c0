import { length } from "./format";
import type { Instant, Length, Ns, Route, Target, Unobserved } from "./model";

/** A matrix has how each node followed each change of an endpoint: a row for each change, a column for each node. */
export interface Matrix { nodes: string[]; rows: MatrixRow[] }

export interface MatrixRow {
  event: number; // the ID of the change
  at: Ns; // when the EndpointSlice changed, at the latest
  pod: string;
  change: Route["change"];
  cells: (Route | undefined)[]; // by node; undefined: no request from there was answered by the Pod
}

/** matrix sets routes out by change and node. Of several targets of one node it has the one that followed last. */
export function matrix(routes: Route[]): Matrix {
  const nodes = [...new Set(routes.map((r) => r.node))].sort();
  const rows = new Map<string, MatrixRow>();
  for (const r of routes) {
    const key = `${r.service} ${r.event}`;
    let row = rows.get(key);
    if (!row) rows.set(key, (row = { event: r.event, at: r.api.latest, pod: r.pod, change: r.change, cells: nodes.map(() => undefined) }));
    const column = nodes.indexOf(r.node);
    const have = row.cells[column];
    if (!have || r.changed.earliest > have.changed.earliest) row.cells[column] = r;
  }
  return { nodes, rows: [...rows.values()].sort((a, b) => a.at - b.at || a.event - b.event) };
}

/** lagText is how long a node's routes took to follow. */
export const lagText = (r: Route): string => length(r.lag, !!r.open);

/** lostText is for how long a node still routed to a Pod after it had stopped, and what it waited for; empty if that is not known, or may be not at all. */
export function lostText(r: Route): string {
  const { lost } = r;
  if (!lost || lost.min === 0) return "";
  const parts = partTexts(r, [
    [lost.appEarly, "before its deletion was asked for"], [lost.controller, "until the EndpointSlice changed"], [lost.proxy, "until the node's own routes followed"],
  ]);
  return `it routed to ${r.pod} for ${length(lost, !!r.open)} after that had stopped: ${parts}`;
}

/** waitedText is how long after a new Pod's first container had started a node routed to it, and what it waited for; empty if that is not known. */
export function waitedText(r: Route): string {
  const { waited } = r;
  if (!waited || waited.min === 0) return "";
  const parts = partTexts(r, [[waited.startUp, "until it was ready"], [waited.controller, "until the EndpointSlice changed"], [waited.proxy, "until the node's own routes followed"]]);
  return `it routed to ${r.pod} ${length(waited, !!r.open)} after its first container had started: ${parts}`;
}

/** partTexts names the parts of what a node waited for, in their order; the last may go on where the routes were not seen to follow. */
const partTexts = (r: Route, parts: [Length, string][]): string =>
  parts.filter(([l]) => l.max > 0).map(([l, what]) => `${length(l, !!r.open && l === parts.at(-1)![0])} ${what}`).join(", ");

/** A Dot is how long one node took to follow a change, and when the Pod itself had stopped by the same clock where that is known. */
export interface Dot { route: Route; from: Ns; at: Ns; to: Ns; stopped?: Ns }

/** dots are those of a change, the quickest node first. */
export function dots({ cells }: Pick<MatrixRow, "cells">): Dot[] {
  return cells.filter((r) => r !== undefined).map((route) => {
    const { lag, lost } = route;
    const at = (lag.min + lag.max) / 2;
    return { route, from: lag.min, at, to: lag.max, ...(lost && lost.min > 0 && { stopped: at - (lost.min + lost.max) / 2 }) };
  }).sort((a, b) => a.at - b.at);
}

/** reach is the least and the greatest instant of some dots, with the change itself at 0. */
export function reach(all: Dot[]): { from: Ns; to: Ns } {
  return { from: Math.min(0, ...all.map((d) => d.stopped ?? 0)), to: Math.max(1e6, ...all.map((d) => d.to)) };
}

/** shortNames are names of nodes without their domains, where these tell none from another. */
export function shortNames(nodes: string[]): Map<string, string> {
  const first = (node: string): string => (/^[\d.]+$/.test(node) ? node : node.split(".")[0]!);
  const distinct = new Set(nodes.map(first)).size === nodes.length;
  return new Map(nodes.map((node) => [node, distinct ? first(node) : node]));
}

const [letter, gap] = [6.4, 8]; // px: what a letter takes, and what is between a dot's bar and its name

/** nameAt is where the name of a dot stands whose bar has these ends: to the right of it if there is room, or else to the left, where nothing is from `free` on. */
export function nameAt(name: string, left: number, right: number, width: number, free = 0): { x: number; anchor: "start" | "end" } | undefined {
  const size = name.length * letter + gap;
  if (right + size <= width) return { x: right + gap, anchor: "start" };
  return left - size >= free ? { x: left - gap, anchor: "end" } : undefined;
}

const steps: Ns[] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 6e4].map((ms) => ms * 1e6);

/** ticksBetween are round lengths on an axis, at most so many. */
export function ticksBetween(from: Ns, to: Ns, most: number): Ns[] {
  const step = steps.find((s) => (to - from) / s <= most) ?? to - from;
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(Math.floor(to / step) - first + 1, 0) }, (_, i) => (first + i) * step);
}

/** moment is the stretch of the run that a cell is about: from when the EndpointSlice changed until the node had followed. */
export const moment = (r: Route): Instant => ({ earliest: Math.min(r.asked?.earliest ?? r.api.earliest, r.api.earliest), latest: r.changed.latest });

/** unobservedAt tells whether nothing was measured from a node at an instant. */
export function unobservedAt(node: string, at: Ns, targets: Target[], unobserved: Unobserved[]): boolean {
  const own = targets.filter((t) => t.kind === "new" && t.node === node);
  const not = (t: Target): boolean => at < t.measured.earliest || at > t.measured.latest || unobserved.some((u) => u.target === t.name && u.start <= at && at <= u.end);
  return own.length > 0 && own.every(not);
}
