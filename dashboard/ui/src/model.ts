// The shapes that the page works with: those of timeline.json (schema.ts, generated from its JSON Schema), and its own.
import type { BucketSeries, Nanoseconds, SparseCounts, TargetKind, Timeline } from "./schema";

export type * from "./schema";

export type Ns = Nanoseconds;

/** A stretch of a target's slots, as it comes over the wire. A slot with sent 0 was not measured. */
export interface BucketChunk extends Pick<BucketSeries, "sent" | "failed" | "classes">, Partial<Pick<BucketSeries, "unobserved" | "latency">> {
  start: number; // index of the first slot; in classes, slots count from the beginning of the run
}

/** One target's slots from t0 on, slot i beginning at i × the bucket width. */
export interface Series {
  sent: number[];
  failed: number[];
  unobserved: number[];
  latency: SparseCounts[];
  classes: Map<number, Record<string, number>>; // by slot, of slots with failures
}

/** The whole of timeline.json. */
export type TimelineFile = Timeline;

/** judged tells whether a target counts for the verdict; direct and control are evidence. */
export const judged = (kind: TargetKind): boolean => kind === "new" || kind === "reused";
