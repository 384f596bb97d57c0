import { glued } from "./format";
import { type Event, type Ns, type RunInfo, type Said, judged, type Target, type Unobserved } from "./model";
import { place } from "./run";

/** proberText is how good the measurement was, figure by figure. */
export const proberText = (said: Said): string => said.prober.map((l) => glued(l.text)).join(" · ");

/** minCoverage is the share of the time that must have been observed for a run to pass. */
export const minCoverage = (info: RunInfo | undefined): number => info?.minCoverage || 0.99;

/** reasonText says why time was not observed, in one word for one thing, as the sentences of a run do. */
export function reasonText(reason: string): string {
  if (reason === "not sent") return "prober stalled";
  return reason === "local fault" ? "prober failed itself" : reason;
}

/** A stretch in which something could not be seen, and why. */
export interface Blank { start: Ns; end: Ns; why: string }

/** watchBlanks are the stretches in which changes of the cluster may have been missed. */
export const watchBlanks = (events: Event[]): Blank[] =>
  events.filter((e) => e.kind === "watch-gap").map((e) => ({ start: e.at?.earliest ?? e.seen, end: place(e), why: [e.object?.kind, e.detail].filter(Boolean).join(": ") }));

/** stallBlanks are the stretches in which the prober did not run. */
export const stallBlanks = (events: Event[]): Blank[] =>
  events.filter((e) => e.kind === "prober-stall").map((e) => ({ start: e.at?.earliest ?? e.seen, end: place(e), why: e.detail ?? "the prober did not run" }));

/** unobservedBlanks are the stretches in which a judged target was not measured. */
export function unobservedBlanks(all: Unobserved[], targets: Target[]): Blank[] {
  const names = new Set(targets.filter((t) => judged(t.kind)).map((t) => t.name));
  return all.filter((u) => names.has(u.target)).map((u) => ({ start: u.start, end: u.end, why: `${u.target}: ${reasonText(u.reason)}` }));
}

/** groupBlanks are the stretches in which a target of a group was not measured. */
export const groupBlanks = (groups: { name: string; unobserved?: { start: Ns; end: Ns }[] }[]): Blank[] =>
  groups.flatMap((g) => (g.unobserved ?? []).map((u) => ({ ...u, why: `${g.name}: not observed from every node` })));
