import { atMost, number } from "./format";
import { type Ns, type Target, judged } from "./model";

/** A RateChange is when requests began to be sent at another rate. */
export interface RateChange { at: Ns; from: number; to: number; before: Ns; since: Ns /* the longest times between two sends */ }

const together: Ns = 1e9; // each target is told one after the other

/** rateChanges has each change once that judged targets had together: its instant is that of the last one. */
export function rateChanges(targets: Target[]): RateChange[] {
  const each: RateChange[] = targets.flatMap(({ kind, rate: to, rerated: r, resolution: before }) =>
    r && judged(kind) ? [{ at: r.at.latest, from: r.from, to, before, since: r.resolution }] : []);
  const all: RateChange[] = [];
  for (const c of each.sort((a, b) => a.at - b.at)) {
    const same = all.find((o) => o.from === c.from && o.to === c.to && c.at - o.at < together);
    if (same) Object.assign(same, { at: c.at, before: Math.max(c.before, same.before), since: Math.max(c.since, same.since) });
    else all.push(c);
  }
  return all;
}

/** rateText says what a change means for the bounds of windows. */
export const rateText = (c: RateChange, at: string): string =>
  `Requests were sent at ${number(c.from)}/s until ${at}, and at ${number(c.to)}/s since: what failed before is known to ${atMost(c.before)}, later failures to ${atMost(c.since)}.`;
