import type { Ns, Series, TogetherChunk, Window } from "./model";
import type { Scale } from "./scale";

/** groups walks the slots that lie in view between two instants, so many at a time that each group is at least so many pixels wide. */
export function groups(scale: Scale, slot: Ns, from: Ns, to: Ns, visit: (first: number, count: number) => void, pixels = 1): void {
  const count = Math.max(1, Math.ceil((scale.at(pixels) - scale.at(0)) / slot));
  const first = Math.max(0, Math.floor(Math.max(from, scale.range.from) / slot / count) * count);
  const end = Math.min(to, scale.range.to);
  for (let i = first; i * slot < end; i += count) visit(i, count);
}

/** worst is the highest share of failed requests of a slot in a group, undefined if none of them was measured. */
export function worst(series: Series, first: number, count: number): number | undefined {
  let share: number | undefined;
  for (let i = first; i < first + count; i++) {
    const sent = series.sent[i] ?? 0;
    if (sent > 0) share = Math.max(share ?? 0, (series.failed[i] ?? 0) / sent);
  }
  return share;
}

/** A Together is what several targets show in one row, slot by slot. */
export interface Together {
  share: (number | undefined)[]; // the highest share of failed requests of one of them, undefined where none was measured
  gap: boolean[]; // one of them was unobserved in a part of it
  classes: Map<number, Map<string, number>>; // slot → failed requests of all of them by class
}

/** together takes many targets together, so that drawing them does not have to look at each. */
export function together(all: Series[]): Together {
  const sum: Together = { share: [], gap: [], classes: new Map() };
  for (const { sent, failed, unobserved, classes } of all) {
    for (let i = sum.share.length; i < sent.length; i++) {
      sum.share.push(undefined);
      sum.gap.push(false);
    }
    for (let i = 0; i < sent.length; i++) {
      if (unobserved[i]) sum.gap[i] = true;
      const [n, bad] = [sent[i]!, failed[i]!];
      if (n > 0) sum.share[i] = Math.max(sum.share[i] ?? 0, bad / n);
      if (bad) sum.classes.set(i, plus(sum.classes.get(i) ?? new Map(), bad, classes.get(i) ?? {}));
    }
  }
  return sum;
}

/** joinedTogether puts together what came in chunks. */
export function joinedTogether(chunks: TogetherChunk[]): Together {
  const sum: Together = { share: [], gap: [], classes: new Map() };
  for (const { start, share, gap, classes } of chunks.sort((a, b) => a.start - b.start)) {
    for (let slot = sum.share.length; slot < start + share.length; slot++) {
      const one = share[slot - start];
      sum.share.push(one === undefined || one < 0 ? undefined : one);
      sum.gap.push(false);
    }
    for (let i = 0; i + 1 < gap.length; i += 2) sum.gap.fill(true, gap[i]!, gap[i]! + gap[i + 1]! + 1);
    for (const [name, pairs] of Object.entries(classes ?? {})) {
      for (let i = 0; i + 1 < pairs.length; i += 2) {
        const slot = sum.classes.get(pairs[i]!) ?? new Map<string, number>();
        sum.classes.set(pairs[i]!, slot.set(name, pairs[i + 1]!));
      }
    }
  }
  return sum;
}

/** plus adds failures of known classes, and those that are left as of an unknown one. */
function plus(sum: Map<string, number>, failed: number, classes: Record<string, number>): Map<string, number> {
  let left = failed;
  for (const [name, n] of Object.entries(classes)) {
    sum.set(name, (sum.get(name) ?? 0) + n);
    left -= n;
  }
  if (left > 0) sum.set(unknown, (sum.get(unknown) ?? 0) + left);
  return sum;
}

/** worstOfAll is the worst among several targets; one that failed matters more than one that was not measured. */
export function worstOfAll({ share }: Together, first: number, count: number): number | undefined {
  let worst: number | undefined;
  for (let i = first; i < first + count; i++) {
    const one = share[i];
    if (one !== undefined) worst = Math.max(worst ?? 0, one);
  }
  return worst;
}

/** unknown names failures of which a timeline does not tell the class. */
export const unknown = "class not recorded";

/** classesOf adds up the failures of a group by class. */
export function classesOf({ classes }: Together, first: number, count: number): Map<string, number> {
  const sum = new Map<string, number>();
  for (let i = first; i < first + count; i++) {
    for (const [name, n] of classes.get(i) ?? []) sum.set(name, (sum.get(name) ?? 0) + n);
  }
  return sum;
}

/** failuresBefore counts the failures of each of so many seconds before an instant. */
export function failuresBefore({ classes }: Together, slot: Ns, now: Ns, seconds: number): number[] {
  const counts = Array<number>(seconds).fill(0);
  for (const [i, of] of classes) {
    const second = seconds - 1 - Math.floor((now - i * slot) / 1e9);
    if (second < 0 || second >= seconds) continue;
    for (const n of of.values()) counts[second]! += n;
  }
  return counts;
}

/** A stretch in which a share of the requests failed. */
export interface Failing { from: Ns; to: Ns; share: number }

/**
 * failing says where within a slot its failures lie: every failure is in a window, so they lie where windows reach into the slot,
 * and are the denser there. Without such a window they may be anywhere in it.
 */
export function failing(windows: Window[], from: Ns, to: Ns, share: number): Failing[] {
  const parts = windows
    .filter((w) => w.kind !== "slow" && w.start.latest < to && Math.max(w.end.earliest, w.start.latest) >= from)
    .map((w) => ({ from: Math.max(w.start.latest, from), to: Math.min(Math.max(w.end.earliest, w.start.latest), to) }));
  if (!parts.length) return [{ from, to, share }];
  const covered = parts.reduce((sum, p) => sum + p.to - p.from, 0);
  return parts.map((p) => ({ ...p, share: covered > 0 ? Math.min(1, (share * (to - from)) / covered) : 1 }));
}
