// The shapes of timeline.json (correlate/model/timeline.go), as far as the page reads them. Instants and
// lengths are integer nanoseconds after t0. What was not seen is absent.

export type Ns = number;

export interface Instant { earliest: Ns; latest: Ns }
export interface Length { min: Ns; max: Ns }

export interface Tool { name: string; version: string }

export interface RunInfo {
  id: string;
  services?: { namespace: string; name: string }[];
  urls?: string[];
  duration: Ns;
  slow?: Ns;
  minCoverage?: number;
  command?: { args: string[]; start?: Ns; end?: Ns; exitCode?: number };
  cluster?: { version?: string; proxyMode?: string };
  aborted?: string;
  planned?: number;
  truncated?: boolean;
  unsaved?: string;
}

export type TargetKind = "new" | "reused" | "direct" | "control";

export interface Target {
  id: number;
  name: string;
  kind: TargetKind;
  url: string;
  source?: string;
  node?: string;
  pod?: string;
  podNode?: string;
  rate: number;
  sent: number;
  failed: number;
  notSent: number;
  late: number;
  achievedRate: number;
  coverage: number;
  slowFrom?: Ns; // an answer that took longer is slow
  gapLimit?: Ns; // a longer time between two sends is unobserved
  measured: Instant;
  latency?: { p50: Ns; p90: Ns; p99: Ns; p999: Ns; max: Ns };
}

export interface Window {
  id: number;
  target: string;
  kind: "outage" | "partial" | "slow";
  basis: "exact" | "statistical";
  start: Instant;
  end: Instant;
  length: Length;
  sent: number;
  failed: number;
  slow?: number;
  share: number;
  downtime: Length;
  blackout?: Length;
  classes: Record<string, number>;
  backends?: Record<string, number>;
  errors?: { class: string; text: string; first: Instant }[];
  open: { start: boolean; end: boolean };
  most?: { length: Ns; downtime: Ns }; // of an open window: how much it can be all the same
  live?: boolean;
  causes: Cause[] | null;
}

export interface Cause {
  rule: string;
  confidence: "high" | "medium" | "low";
  text: string;
  fix?: string;
  evidence: Evidence[] | null;
  rivals: string[] | null;
}

export interface Incident {
  id: number;
  windows: number[]; // their IDs
  targets: string[]; // the one that lost most first
  start: Instant;
  end: Instant;
  sent: number;
  failed: number;
  slow?: number;
  downtime: Length; // the worst target's
  open?: boolean;
  live?: boolean;
  classes: Record<string, number>;
  triggers: { kind: string; text: string; event: number; at: Instant }[];
  causes: IncidentCause[]; // the one that explains most failures first
}

export interface IncidentCause extends Cause { windows: number[]; failed: number }

export interface Evidence { event?: number; target?: string; at?: Instant; text: string }

export interface Unobserved { target: string; start: Ns; end: Ns; reason: string }

export interface Event {
  id: number;
  seen: Ns;
  at: Instant;
  stamp?: string;
  writer?: string;
  kind: string;
  from?: string;
  to?: string;
  object?: { kind?: string; namespace?: string; name?: string; uid?: string; node?: string };
  addr?: string;
  port?: number; // the number of an endpoint's own port
  exitCode?: number;
  grace?: Ns;
  count?: number;
  status?: number; // HTTP
  detail?: string;
  service?: string; // NAMESPACE/NAME of the Service an endpoint is of
}

export interface Service {
  name: string; // NAMESPACE/NAME
  endpoints: { at: Instant; ready: number; serving: number }[]; // each time their number changed, by time
}

export interface Pod {
  namespace: string;
  name: string;
  uid: string;
  node?: string;
  ip?: string;
  created?: Instant; // absent if it was there when the run first looked
  states: { start: Ns; state: string }[] | null;
}

export interface Verdict {
  result: "pass" | "fail" | "inconclusive" | "ungated";
  exitCode: number;
  reasons: string[] | null;
  notes?: string[];
  gates: { expr: string; outcome: "pass" | "fail" | "undecided"; value?: Length }[] | null;
  sent: number;
  failed: number;
  errorRate: number;
  windows: number;
  downtime: { total: Length; open?: boolean };
  longestWindow?: Length;
  longestBlackout?: Length;
  detectionLimit: Ns;
  coverage: number;
  latencyP99?: Ns;
  validity: {
    late: number;
    notSent: number;
    watchGaps: number;
    unobserved: Ns;
    control: string;
    stalls: number;
    lanesOff?: string[];
  };
}

/** Pairs of slot and count: slot, count, slot, count, …; slots rising. */
export type SparseCounts = number[];

/** A stretch of a target's slots, as it comes over the wire. A slot with sent 0 was not measured. */
export interface BucketChunk {
  start: number; // index of the first slot
  sent: number[];
  failed: number[];
  unobserved?: number[]; // share of the slot, 0 to 1
  latency?: SparseCounts[]; // of the requests that were answered, from Due, by latency slot
  classes?: Record<string, SparseCounts>; // failures by class and slot, counted from the beginning of the run
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
export interface TimelineFile {
  tool: Tool;
  t0: string;
  run: RunInfo & { live?: boolean };
  targets: Target[] | null;
  incidents?: Incident[] | null;
  windows: Window[] | null;
  unobserved: Unobserved[] | null;
  buckets: { width: Ns; targets: Record<string, Omit<BucketChunk, "start">> | null };
  events: Event[] | null;
  services: Service[] | null;
  pods: Pod[] | null;
  verdict: Verdict;
}

/** judged tells whether a target counts for the verdict; direct and control are evidence. */
export const judged = (kind: TargetKind): boolean => kind === "new" || kind === "reused";
