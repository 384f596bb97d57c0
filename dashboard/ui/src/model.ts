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

/**
 * A Group are judged targets that send the same to the same Service, each from another node. The state of a run with many targets holds
 * groups, and the targets are asked for (publish.Group).
 */
export interface Group {
  id: number; // of its first target
  name: string; // what they have in common: "web new"
  kind: TargetKind;
  service?: string;
  targets: number; // how many they are
  rate: number;
  achievedRate: number;
  sent: number;
  failed: number;
  notSent: number;
  late: number;
  coverage: number; // the least of one target
  measured: { earliest: Ns; latest: Ns };
  agree: boolean; // each window of one meets a window of every other one, and all were observed all along
  failing: string[]; // names of the targets that have windows
  unobserved: { start: Ns; end: Ns }[]; // when one of them at least was not observed
}

/** How many targets there are, and how long one of them was not observed (publish.Counts). */
export interface Counts { judged: number; evidence: number; unobserved: number; targetEvents: number }

/** A stretch of what several targets show in one row, as it comes over the wire (publish.Together). */
export interface TogetherChunk {
  start: number;
  share: number[]; // −1 where none was measured
  gap: SparseCounts; // slot, and how many after it
  classes?: Record<string, SparseCounts>;
}

/** The whole of timeline.json. */
export type TimelineFile = Timeline;

/** judged tells whether a target counts for the verdict; direct and control are evidence. */
export const judged = (kind: TargetKind): boolean => kind === "new" || kind === "reused";
