import type { Event, Incident, Instant, Ns, Window } from "./model";
import { place } from "./run";
import { around, inside, type Range } from "./scale";

/** mostHarmful sorts incidents by downtime, the longest first, as the terminal does. */
export const mostHarmful = (incidents: Incident[]): Incident[] =>
  [...incidents].sort((a, b) => b.downtime.max - a.downtime.max || b.failed - a.failed || (b.cut ?? 0) - (a.cut ?? 0) || (b.slow ?? 0) - (a.slow ?? 0));

interface Failing { start: Instant; end: Instant; failedFrom?: Ns; failedTo?: Ns }

/** failing is from when the first of a window's or incident's failed requests was due to when the last one was: facts, not brackets. */
export function failing({ start, end, failedFrom = start.latest, failedTo = end.earliest }: Failing): Range {
  return { from: failedFrom, to: Math.max(failedTo, failedFrom) };
}

/** longestFailing is the longest time from the first failed request of an incident to its last one; undefined if none failed. */
export const longestFailing = (incidents: Incident[]): Range | undefined =>
  incidents.filter((i) => i.failed > 0).map(failing).sort((a, b) => b.to - b.from - (a.to - a.from))[0];

const [before, after] = [1e9, 2e9]; // ns
const [margin, nearby] = [300e6, 10e9]; // ns, about a step, and how far from the failures one is still shown

/** incidentRange shows an incident with a second before it and two after it, more of a long one's surroundings, and its steps that are near. */
export function incidentRange(incident: Incident, whole: Range): Range {
  const { from, to } = failing(incident);
  const length = to - from;
  const steps = (incident.said.phases ?? []).map((p) => p.at.latest).filter((at) => at > from - nearby && at < to + nearby);
  return inside({
    from: Math.min(from - Math.max(before, length / 10), ...steps.map((at) => at - margin)),
    to: Math.max(to + Math.max(after, length / 5), ...steps.map((at) => at + margin)),
  }, whole);
}

/** windowRange shows a window with its surroundings. */
export const windowRange = (w: Window, whole: Range): Range => inside(around(w.start.earliest, w.end.latest), whole);

const widest: Ns = 10e9; // ns: an instant that is known less well is shown where it was seen

/** eventRange shows an event with at least a second on each side. */
export function eventRange(e: Event, whole: Range): Range {
  const at = place(e);
  const earliest = e.at?.earliest ?? e.seen;
  const from = at - earliest > widest ? at : earliest;
  const margin = Math.max((at - from) * 1.5, 1e9);
  return inside({ from: from - margin, to: at + margin }, whole);
}

/** opening is what the page shows of an ended run before the reader has chosen: its most harmful incident, or the whole run. */
export function opening(incidents: Incident[], whole: Range): Range {
  const first = mostHarmful(incidents)[0];
  return first ? incidentRange(first, whole) : whole;
}
