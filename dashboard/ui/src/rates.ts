import { atMost, number } from "./format";
import { type Ns, type Target, judged } from "./model";

/** A RateChange is when requests began to be sent at another rate. */
export interface RateChange { at: Ns; from: number; to: number; before: Ns; since: Ns /* the longest times between two sends */ }

/** rateChanges has each change once that judged targets had together. */
export function rateChanges(targets: Target[]): RateChange[] {
  const all = new Map<string, RateChange>();
  for (const { kind, rate: to, rerated: r, resolution: before } of targets) {
    if (!r || !judged(kind)) continue;
    const [at, key] = [r.at.latest, `${r.at.latest} ${r.from} ${to}`];
    const same = all.get(key);
    all.set(key, { at, from: r.from, to, before: Math.max(before, same?.before ?? 0), since: Math.max(r.resolution, same?.since ?? 0) });
  }
  return [...all.values()].sort((a, b) => a.at - b.at);
}

/** rateText says what a change means for the bounds of windows. */
export const rateText = (c: RateChange, at: string): string =>
  `Requests were sent at ${number(c.from)}/s until ${at}, and at ${number(c.to)}/s since: what failed before is known to ${atMost(c.before)}, later failures to ${atMost(c.since)}.`;
