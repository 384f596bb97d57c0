import type { Held, Ns } from "./model";

/** A Standing is how many held connections stand from an instant on. */
export interface Standing { at: Ns; count: number }

/**
 * standing is how many of a target's connections stood when, as far as its windows tell: those that were cut are gone from the cut on, and
 * those that came back stand again when the last of them did at the latest.
 */
export function standing(held: Pick<Held, "stood" | "windows">): Standing[] {
  const changes = held.windows.flatMap((w): Standing[] => {
    const back = w.back ? w.failed - (w.missing ?? 0) : 0;
    return [{ at: w.start.latest, count: -w.failed }, ...(back ? [{ at: w.start.latest + w.back!.max, count: back }] : [])];
  });
  let count = held.stood;
  const steps = [{ at: -Infinity, count }];
  for (const { at, count: by } of changes.sort((a, b) => a.at - b.at)) {
    count = Math.min(Math.max(count + by, 0), held.stood);
    steps.push({ at, count });
  }
  return steps;
}

/** standingAt is how many stand at an instant. */
export const standingAt = (steps: Standing[], at: Ns): number => steps.findLast((s) => s.at <= at)?.count ?? 0;

const figure = 14; // px that a figure takes

/** standingText is how many stand from a step on, as there is room: of a fall and a rise in less than that, "↓ 37" at the fall. */
export function standingText(steps: Standing[], i: number, room: number): string {
  const { count } = steps[i]!;
  if (room >= figure) return String(count);
  return i > 0 && count < steps[i - 1]!.count ? `↓ ${count}` : "";
}
