import { relative } from "./format";
import type { Cause, Event, Evidence, Incident, Instant, Ns } from "./model";
import { place, type Run } from "./run";

/** A Moment is something that happened, and when if that is known. */
export interface Moment { text: string; at?: Instant; event?: Event; number?: number /* of what is marked on the timeline */ }

/** moments puts a cause's evidence in order of time; what has no time of its own comes last. */
export function moments({ evidence }: Pick<Cause, "evidence">, run: Run): Moment[] {
  const order = (m: Moment): Ns => m.at?.latest ?? Infinity;
  return (evidence ?? []).map((e) => moment(e, run)).sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}

function moment(e: Evidence, run: Run): Moment {
  const event = e.event === undefined ? undefined : run.event(e.event);
  const at = e.at ?? event?.at ?? (event && { earliest: place(event), latest: place(event) });
  return { text: e.text, ...(at && { at }), ...(event && { event }) };
}

/** happened is how an incident went, in numbered steps. */
export const happened = (incident: Incident | undefined): Moment[] => (incident?.said.phases ?? []).map(({ at, text }, i) => ({ at, text, number: i + 1 }));

const width = (i: Instant): Ns => i.latest - i.earliest;

/** vague instants are known so badly that only their later bound is worth reading. */
const vague = (i: Instant): boolean => width(i) > 200e6;

/** pointOf is where an instant stands: the middle of its bracket, or the later bound of a vague one. */
export const pointOf = (i: Instant): Ns => (vague(i) ? i.latest : (i.earliest + i.latest) / 2);

/** errorOf is how far an instant may lie from where it stands; 0 if that is not worth reading. */
export const errorOf = (i: Instant): Ns => (vague(i) || width(i) < 1e6 ? 0 : width(i) / 2);

/** when writes an instant relative to another one. */
export const when = (i: Instant, zero: Ns): string => (vague(i) ? `by ${relative(i.latest, zero)}` : relative(pointOf(i), zero));
