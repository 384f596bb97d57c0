// Generated from report/timeline.schema.json by schema.mjs: npm run types.

/**
 * A length of time in nanoseconds, or an instant counted from t0, which may lie before it.
 */
export type Nanoseconds = number;
/**
 * Role says what a source does in its run. The list is closed.
 * - workstation: measures from where it was started
 * - coordinator: measures, watches and judges in the cluster
 * - prober: only measures, and hands its facts to a coordinator
 */
export type Role = "workstation" | "coordinator" | "prober";
/**
 * TargetKind says how a target is probed, and with that what its failures can prove.
 * - new: opens a fresh connection per request: what a new client of the Service sees.
 * - reused: sends on persistent connections: what a client with a connection pool sees.
 * - direct: sends to one endpoint's own address, past the Service's routes: evidence whether that Pod itself served.
 * - held: keeps connections open for the whole run, with a heartbeat on each at a steady rate: what a client sees whose connections live for hours. Its requests are the heartbeats; what became of each connection is told by HeldChange.
 * - control: sends to an echo server inside the prober: if this fails, the prober was the problem.
 */
export type TargetKind = "new" | "reused" | "direct" | "held" | "control";
/**
 * TriggerKind says what sort of change set an incident off. The list is closed.
 * - drain: Object is the node: it had been cordoned when the Pods that the causes name were deleted
 * - rollout: Object is the workload, such as a Deployment: it replaced its Pods by those of another template
 * - scaled-down: Object is the workload: fewer replicas were asked for
 * - pods-deleted: Object is the Pod, if it is one only
 * - pod-exited: Object is the Pod: a container ended, and nobody had asked for it
 * - service-changed: Object is the Service: its selector, ports, type or policies were changed
 * - service-deleted: Object is the Service
 */
export type TriggerKind = "drain" | "rollout" | "scaled-down" | "pods-deleted" | "pod-exited" | "service-changed" | "service-deleted";
/**
 * Confidence of a cause.
 * - high: independent signs agree, and no rival fits as well
 * - medium: the signs fit, and so does a rival
 * - low: only closeness in time
 */
export type Confidence = "high" | "medium" | "low";
/**
 * WindowKind says what kind of trouble a window is.
 * - outage: at least 3 requests, none of them answered
 * - partial: a share of the requests failed
 * - slow: answered, but later than --slow
 */
export type WindowKind = "cut" | "outage" | "partial" | "slow";
/**
 * Basis says what a window's brackets rest on.
 * - exact: 8 requests or more failed and none succeeded among them, so one good request proves health: the brackets hold the truth
 * - statistical: only a share of requests failed, or too few to tell, or they timed out, which shows when answers usually come: the brackets hold the truth with 99 % probability
 */
export type Basis = "exact" | "statistical";
/**
 * Class says how a request ended, in one word. The list is closed.
 * - ok: 2xx, or 3xx (redirects are not followed), whole and as expected
 * - refused: ECONNREFUSED
 * - reset: ECONNRESET or EPIPE
 * - eof: closed by the peer before the reply's header was whole
 * - timeout_connect: no connection within the timeout
 * - timeout_response: connected, but no whole reply within the timeout
 * - unreachable: EHOSTUNREACH, ENETUNREACH
 * - dns: the name did not resolve
 * - tls: handshake or certificate
 * - http_5xx: a complete reply with status 500 to 599
 * - http_4xx: a complete reply with status 400 to 499
 * - body: reply malformed, cut short, or not as expected
 * - no_slot: not sent: every allowed connection waited for an unresponsive target, or, of a held target, its connection did not stand. A failure of the target.
 * - notsent: not sent: we were too late ourselves. Unobserved, never down.
 * - local: our own fault: EMFILE, EADDRNOTAVAIL, ENOBUFS, or a failure that a stop of the prober may have made. Unobserved, never down.
 * - other: none of the above
 */
export type Class =
  | "ok"
  | "refused"
  | "reset"
  | "eof"
  | "timeout_connect"
  | "timeout_response"
  | "unreachable"
  | "dns"
  | "tls"
  | "http_5xx"
  | "http_4xx"
  | "body"
  | "no_slot"
  | "notsent"
  | "local"
  | "other";
/**
 * SparseCounts are counts as pairs of slot and count: [slot, count, slot, count, …], slots rising. The slots
 * of a latency histogram are those of LatencyBin.
 */
export type SparseCounts = number[];
/**
 * EventKind says what changed. The list is closed.
 * - pod-seen: To: its phase when first seen; Stamp: creationTimestamp; Detail: "watched" if it was created while we watched, "listed" if it was there before; Owner; Template
 * - pod-scheduled: To: the node; Stamp: the condition's
 * - pod-container: a container's state: waiting, running, terminated. Detail: its name and reason; ExitCode when terminated; Count: its restarts when running; Stamp: startedAt, finishedAt
 * - pod-ready: the Ready condition: "true", "false"; Stamp: lastTransitionTime
 * - pod-deleted: deletion was requested; Grace; Stamp: deletionTimestamp − grace period
 * - pod-disrupted: the condition DisruptionTarget, by which whoever ends a Pod says so. To: its reason, as EvictionByEvictionAPI; Detail: its message; Stamp: lastTransitionTime
 * - pod-phase: Pending, Running, Succeeded, Failed; Detail: reason
 * - deletion-asked: Lapse itself asked the API server to delete the Pod, between Since and Seen
 * - pod-gone: the object was deleted; Detail: "relist" if a relist found it missing, or "no longer selected"
 * - node-ready: the Ready condition: "true", "false", "unknown"
 * - node-schedulable: "true", "false" (cordoned)
 * - node-taint: From, To: "absent", "present"; Detail: the taint, KEY=VALUE:EFFECT. Not that of a cordon
 * - service: Detail: what changed
 * - kube-event: To: its reason; Detail: its message; Stamp: with nanoseconds where its name carries them
 * - run: From/To: a Phase, "baseline", "measuring", "settling", "ended"; Detail: why, where the end was not the planned one
 * - command: the wrapped command: To "running", "exited"; ExitCode; Detail: the command line
 * - command-output: Detail: one line
 * - prober: Object is the node it is on; To: "measuring"; "missing", when the run began without it; "lost", when nothing more came from it; Detail: its Pod, or why
 * - target: Object.Name: the target; To: "measuring", "ended"
 * - watch-gap: changes between Since and Seen may have been missed; Object.Kind: what is watched, empty if it is all that is; Services; Detail: why
 * - watch-lane: Object.Kind: what is watched; To: "on", "off"; Services; Detail: why
 * - prober-stall: the prober was stopped between Since and Seen: its pacing thread, which wakes every millisecond, did not run for longer than a request may be late (SIGSTOP, a frozen machine, no CPU)
 * - request-error: the first request of a target to fail for this reason, sent at Since and over at Seen. Object.Name: the target; To: its class; Status; Detail: the reason
 * - address-failed: between Since and Seen, a target's connections went to another address of its name because Addr had failed. Object.Name: the target; To: the class; Count: how many connections so far; Detail: what the first one met
 * - hammer: background load: To "running" with hey's flags as Detail, then "ended" with its summary as JSON, or why it failed
 */
export type EventKind =
  | "pod-seen"
  | "pod-scheduled"
  | "pod-container"
  | "pod-ready"
  | "pod-deleted"
  | "pod-disrupted"
  | "pod-phase"
  | "deletion-asked"
  | "pod-gone"
  | "endpoint"
  | "node-ready"
  | "node-schedulable"
  | "node-taint"
  | "node-gone"
  | "service"
  | "kube-event"
  | "snapshot"
  | "preflight"
  | "name-answered"
  | "node-check"
  | "run"
  | "command"
  | "command-output"
  | "prober"
  | "target"
  | "watch-gap"
  | "watch-lane"
  | "prober-stall"
  | "request-error"
  | "address-failed"
  | "hammer";
/**
 * A Disturbance is what a prediction is about: it says what happens if this does.
 * - pod-ends: a Pod whose endpoint was ready is deleted
 * - pod-starts: a new Pod becomes a ready endpoint
 * - last-endpoint-goes: no endpoint is ready any more
 * - node-drained: Pods with a ready endpoint are evicted from Node
 * - node-fails: Node, which has a ready endpoint, is not ready any more
 * - node-lost: one of the last two
 * - rollout: Pods are replaced by those of another template
 * - liveness-fails: a container is ended because its liveness probe failed
 * - node-without: the prober's node has no ready endpoint
 * - eviction-asked: somebody asks the API to evict a Pod
 */
export type Disturbance =
  | "pod-ends"
  | "pod-starts"
  | "last-endpoint-goes"
  | "node-drained"
  | "node-fails"
  | "node-lost"
  | "rollout"
  | "liveness-fails"
  | "node-without"
  | "eviction-asked";
/**
 * RouteChange says what a node's routes had to follow. The list is closed.
 * - removal: an endpoint was ready, and is no more
 * - addition: an endpoint turned ready
 */
export type RouteChange = "removal" | "addition";
/**
 * LostPart names a part of a LostTime or a WaitedTime. The list is closed.
 */
export type LostPart = "app-early" | "controller" | "proxy" | "start-up";
/**
 * LateOf says what routes that follow late have in common. The list is closed.
 * - node: one node, where others were in time: its proxy or network, or its way to the API server
 * - zone: all nodes of a zone, where other zones were in time
 * - change: all nodes: what they share
 */
export type LateOf = "node" | "zone" | "change";
/**
 * EndedBy says who or what ended a Pod. The list is closed.
 * - evicted: through the eviction API, as by a drain
 * - preempted: by the scheduler
 * - taint-evicted: because its node was tainted
 * - garbage-collected: because its node was gone
 * - kubelet: node pressure, or the node's shutdown
 * - scaled-down: its workload wants fewer
 * - rolled-out: its workload has a newer template
 * - deleted: by anyone else, or by whom is not known
 * - crashed: a container ended, and nobody had asked for it
 */
export type EndedBy = "evicted" | "preempted" | "taint-evicted" | "garbage-collected" | "kubelet" | "scaled-down" | "rolled-out" | "deleted" | "crashed";
/**
 * Result of a verdict.
 */
export type Result = "pass" | "fail" | "inconclusive" | "ungated";
/**
 * A Unit is what a gate's value counts.
 * - duration: nanoseconds
 * - ratio: from 0 to 1
 */
export type Unit = "count" | "duration" | "ratio";
/**
 * GateOutcome is what the error bars say about a gate.
 */
export type GateOutcome = "pass" | "fail" | "undecided";
/**
 * PredictionOutcome is what a run says of a prediction. The list is closed.
 * - confirmed: an incident has the cause that was predicted, with medium confidence or more; or an eviction was refused
 * - refuted: what it is about happened to the Service and was measured, and no incident has the cause
 * - not-tested: neither: that is no refutation
 */
export type PredictionOutcome = "confirmed" | "refuted" | "not-tested";

/**
 * A Timeline is a judged run: the whole of timeline.json, and what every report and the page show.
 *
 * All instants and lengths are integer nanoseconds counted from T0. What is uncertain is a pair of
 * bounds. What was not seen is absent, never zero.
 */
export interface Timeline {
  schemaVersion: 2;
  tool: Tool;
  t0: string;
  run: RunInfo;
  /**
   * who measured and watched; absent where the recording names none
   */
  sources?: Source[];
  targets: Target[];
  /**
   * what reports lead with: windows that belong together
   */
  incidents: Incident[];
  windows: Window[];
  unobserved: Unobserved[];
  /**
   * what became of connections that were kept open; absent if none were
   */
  held?: Held[];
  /**
   * every failed request of judged targets, up to a cap
   */
  failures: Failure[];
  /**
   * how many failures the cap left out
   */
  failuresTruncated?: number;
  buckets: Buckets;
  events: Event[];
  /**
   * those whose endpoints were watched; the one that lost most first
   */
  services: WatchedService[];
  /**
   * how nodes followed changes of endpoints, by change, then by node; absent without probers on nodes
   */
  routes?: Route[];
  /**
   * which of these nodes and changes stand out
   */
  late?: LateRoutes[];
  dns?: DNS;
  pods: Pod[];
  keepServing?: KeepServing;
  verdict: Verdict;
  hammer?: Hammer;
  scorecard?: Scorecard;
}
/**
 * Tool names the program that judged the run.
 */
export interface Tool {
  name: string;
  version: string;
}
/**
 * RunInfo says what was asked for and what ran.
 */
export interface RunInfo {
  id: string;
  services?: Service[];
  /**
   * Services that were to be measured and could not be
   */
  setAside?: SetAside[];
  urls?: string[];
  duration: Nanoseconds;
  baseline: Nanoseconds;
  settle: Nanoseconds;
  timeout: Nanoseconds;
  join: Nanoseconds;
  slow: Nanoseconds;
  resolution?: Nanoseconds;
  /**
   * the share of the time that must have been observed for a run to pass
   */
  minCoverage?: number;
  /**
   * the share that each node of --from must have observed; absent: minCoverage
   */
  minNodeCoverage?: number;
  spec?: Spec;
  command?: Command;
  cluster?: Cluster;
  /**
   * why the run ended before it was due to
   */
  aborted?: string;
  planned?: Nanoseconds;
  /**
   * the recording ends before the run did: Duration is what was recorded, and nothing is said of the time after
   */
  truncated?: boolean;
  /**
   * why not all of the run is on disk; what is said here was judged from all of it
   */
  unsaved?: string;
  /**
   * the run goes on: what follows may still change
   */
  live?: boolean;
}
/**
 * A Service is a Kubernetes Service as it was when the run began.
 */
export interface Service {
  namespace: string;
  name: string;
  clusterIP?: string;
  /**
   * "80/TCP → http"
   */
  ports?: string[];
  /**
   * the ports that are measured, by name or number
   */
  measured?: string[];
  /**
   * ClusterIP, NodePort, LoadBalancer, ExternalName
   */
  type?: string;
  /**
   * the name that a Service of type ExternalName leads to
   */
  externalName?: string;
  /**
   * what a pass of the run says nothing of, a sentence each
   */
  notCovered?: string[];
}
/**
 * A SetAside is a Service that the run was to measure among others and could not.
 */
export interface SetAside {
  namespace: string;
  name: string;
  /**
   * in words
   */
  why: string;
}
/**
 * A Spec is what a run is asked to do: what to send where, for how long, and how to judge it. It is made from flags
 * once, where the user is, and checked there. A Job gets it as one value, and the recording keeps it. What only
 * concerns the workstation is in Options.
 *
 * Its JSON hides secrets, wherever it is written: names of headers stay, their values do not. Spec.Secrets has the
 * rest.
 */
export interface Spec {
  /**
   * TARGET arguments
   */
  targets: string[];
  /**
   * of the Services; empty: the kubeconfig's
   */
  namespace?: string;
  /**
   * a Service that is only watched
   */
  watch?: string;
  /**
   * instead of Targets: the Services with ready endpoints on this node
   */
  onNode?: string;
  /**
   * instead of Targets: the Services of all namespaces
   */
  allNamespaces?: boolean;
  /**
   * of the Services' labels
   */
  selector?: string;
  /**
   * what these mean
   */
  chosen?: ChosenService[];
  /**
   * what they mean and cannot be measured
   */
  setAside?: SetAside[];
  /**
   * nothing is predicted
   */
  noPreflight?: boolean;
  /**
   * predictions that somebody has accepted
   */
  accepted?: Acceptance[];
  /**
   * the node that the command drains, if it names one
   */
  drains?: string;
  /**
   * the nodes to measure from; none: from the Job's own alone
   */
  probers?: string[];
  proberWait?: Nanoseconds;
  /**
   * which nodes Probers are, where the Job is to find that out when it starts: all, names or a label selector
   */
  proberNodes?: string;
  /**
   * the workstation measures, too, by the Services' addresses outside of the cluster
   */
  outside?: boolean;
  dns?: DNS;
  /**
   * requests per second, for each of Kinds
   */
  rate: number;
  /**
   * requests per second that Rate was made from, shared by all judged targets
   */
  totalRate?: number;
  /**
   * requests per second for all Pods' own addresses together
   */
  directRate: number;
  pacing: string;
  /**
   * of connections: new, reused, held
   */
  kinds: string[];
  connections: number;
  /**
   * connections that are kept open for the whole run, of each target
   */
  held?: number;
  heartbeat?: Nanoseconds;
  timeout: Nanoseconds;
  duration?: Nanoseconds;
  baseline: Nanoseconds;
  settle: Nanoseconds;
  /**
   * of Services
   */
  scheme: string;
  /**
   * requests to Services go to their addresses; no DNS server is asked for their names
   */
  byClusterIP?: boolean;
  method: string;
  host?: string;
  /**
   * a secret, but for the names: "Name: value"
   */
  headers?: string[];
  /**
   * names of Secrets
   */
  headersFrom?: string[];
  expectStatus?: string;
  expectBody?: string;
  /**
   * a secret
   */
  echo?: string;
  /**
   * the name of a Secret
   */
  echoFrom?: string;
  backendHeader?: string;
  grpcMethod?: string;
  /**
   * a secret: what it is called with, encoded
   */
  grpcRequest?: string;
  /**
   * the authorities to trust
   */
  caPEM?: string;
  /**
   * a secret where it has headers or a body
   */
  hammer?: string;
  join: Nanoseconds;
  slow?: Nanoseconds;
  resolution?: Nanoseconds;
  minCoverage: string;
  /**
   * of each node of Probers; empty: as Coverage
   */
  minNodeCoverage?: string;
  failIf?: string[];
  maxDuration: Nanoseconds;
  workstationTimeout?: Nanoseconds;
  hold: Nanoseconds;
}
/**
 * A ChosenService is one that the run was to choose, and that can be measured.
 */
export interface ChosenService {
  namespace: string;
  name: string;
  /**
   * what is spoken; empty: what --scheme says
   */
  scheme?: string;
}
/**
 * An Acceptance is about the findings of one rule.
 */
export interface Acceptance {
  /**
   * by ID or name
   */
  rule: string;
  /**
   * NAME or NAMESPACE/NAME; left out: of whatever Service
   */
  service?: string;
  /**
   * KIND/NAME; left out: of whatever object
   */
  object?: string;
  /**
   * left out: of whatever container
   */
  container?: string;
  reason: string;
}
/**
 * DNS says which DNS servers are asked: for the name of a headless Service that is measured, or of the twin of the
 * Service of `lapse routes`, and by `lapse run` for the names of its Services. The workstation finds them, so that
 * the Job needs no right outside of its namespace.
 */
export interface DNS {
  servers?: Server[];
  /**
   * why there are none, or which were left out
   */
  notAsked?: string;
}
export interface Server {
  addr: AddrPort;
  pod?: Object;
}
export interface AddrPort {}
/**
 * An Object names a thing in the cluster.
 */
export interface Object {
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  /**
   * the node it runs on
   */
  node?: string;
}
/**
 * Command is the wrapped command.
 */
export interface Command {
  args: string[];
  start?: Nanoseconds;
  end?: Nanoseconds;
  exitCode?: number;
}
/**
 * Cluster describes where the run took place, as far as the rights to see it went.
 */
export interface Cluster {
  version?: string;
  proxyMode?: string;
}
/**
 * A Source is a process that measured or watched, with a clock of its own.
 */
export interface Source {
  id: number;
  name: string;
  role: Role;
  node?: string;
  zone?: string;
  clock?: SourceClock;
  /**
   * requests of its judged targets that it sent late
   */
  late: number;
  /**
   * how often it was stopped
   */
  stalls: number;
  /**
   * the worst of its judged targets'; absent if it has none
   */
  coverage?: number;
  /**
   * stretches, from Earliest to Latest, of which what it measured is not on record
   */
  lost?: Instant[];
}
/**
 * A SourceClock is how a source's clock stood against the run's.
 */
export interface SourceClock {
  min: Nanoseconds;
  max: Nanoseconds;
  /**
   * how often the two were compared
   */
  exchanges: number;
  /**
   * how often it jumped against the run's, as where its machine was suspended
   */
  jumps?: number;
}
/**
 * An Instant lies somewhere between Earliest and Latest, both inclusive.
 */
export interface Instant {
  earliest: Nanoseconds;
  latest: Nanoseconds;
}
/**
 * Target is one target's totals over the run.
 */
export interface Target {
  id: number;
  name: string;
  kind: TargetKind;
  url: string;
  source?: string;
  node?: string;
  service?: string;
  /**
   * the name of the Service's port; absent if it has none
   */
  portName?: string;
  /**
   * the way to the Service, where one was asked for: nodeport
   */
  route?: string;
  /**
   * the node whose port is asked; absent where Node itself leads requests on
   */
  routeNode?: string;
  /**
   * connections go to each of the addresses of the URL's name in turn: those of a headless Service
   */
  turns?: boolean;
  addr?: string;
  pod?: string;
  podUID?: string;
  podNode?: string;
  /**
   * asked for, requests per second
   */
  rate: number;
  /**
   * what a success is: "a reply with status 200 to 399"
   */
  proves?: string;
  /**
   * a success shows only that somebody accepted a connection, not that the application answers
   */
  blind?: boolean;
  /**
   * of kind reused: how many persistent ones are kept
   */
  connections?: number;
  /**
   * requests whose outcome tells something of the target: ok + failed
   */
  sent: number;
  ok: number;
  failed: number;
  /**
   * requests without evidence, by a fault of our own: classes notsent and local
   */
  notSent: number;
  /**
   * sent more than max(1 interval, 5 ms) after due
   */
  late: number;
  /**
   * of the ok ones, those of which it is not known when the answer came, because the prober was stopped or read it late: they have no part in latency and slow windows
   */
  delayed?: number;
  /**
   * how many requests ended in each class
   */
  classes: {
    [k: string]: number;
  };
  /**
   * reused: how many ok requests were the first on their connection
   */
  newConnections?: number;
  /**
   * addresses of its name that failed before another one answered: requests that succeeded, late
   */
  failedAddresses?: FailedAddress[];
  /**
   * sent ÷ measured time
   */
  achievedRate: number;
  resolution: Nanoseconds;
  gapLimit?: Nanoseconds;
  /**
   * observed ÷ measured time, 0 to 1
   */
  coverage: number;
  /**
   * observed by at least one of the sources that send the same to the same Service; absent if there is one
   */
  sharedCoverage?: number;
  measured: Instant;
  slowFrom?: Nanoseconds;
  /**
   * every ok request took longer than --slow, or 500 ms: that is how the target answers, and no window
   */
  alwaysSlow?: boolean;
  latency?: Latency;
}
/**
 * A FailedAddress is one of several addresses of a target's name that failed when connections were made. They went to
 * another one then, in the time that was left; where none accepted, the request failed. Of each target the first 8
 * different ones are counted.
 */
export interface FailedAddress {
  addr: string;
  /**
   * what came of connecting to it
   */
  class: string;
  /**
   * the same in the words of the first failure
   */
  text: string;
  /**
   * made to another address for that reason, but for those during which the prober was stopped; at least so many, while the run goes on or where it broke off
   */
  connections: number;
  during: Instant;
}
/**
 * Latency are quantiles of the time from Due to Done.
 */
export interface Latency {
  p50: Nanoseconds;
  p90: Nanoseconds;
  p99: Nanoseconds;
  p999: Nanoseconds;
  max: Nanoseconds;
}
/**
 * An Incident is the unit of a report: windows of any targets that overlap, or that the same change set off. Its
 * windows are the detail.
 */
export interface Incident {
  /**
   * from 1, by start
   */
  id: number;
  /**
   * their IDs, by start
   */
  windows: number[];
  /**
   * their targets, the one that lost most first
   */
  targets: string[];
  start: Instant;
  end: Instant;
  /**
   * over its windows, as there
   */
  sent: number;
  failed: number;
  /**
   * over its windows, as there
   */
  setAside?: number;
  slow?: number;
  /**
   * held connections that were cut, over its windows of kind cut, which have no part in Sent, Failed and Downtime
   */
  cut?: number;
  downtime: Length;
  open?: boolean;
  /**
   * not final: later requests may change it
   */
  live?: boolean;
  /**
   * failures by class
   */
  classes: {
    [k: string]: number;
  };
  /**
   * what set it off, as far as its causes name Pods or a change of the Service, by time; empty if that is not known
   */
  triggers: Trigger[];
  recurs?: Recurrence;
  /**
   * each rule once, first the one that explains most losses: failed requests and cut connections
   */
  causes: IncidentCause[];
}
/**
 * A Length of time is at least Min and at most Max.
 */
export interface Length {
  min: Nanoseconds;
  max: Nanoseconds;
}
/**
 * A Trigger is the change in the cluster that set an incident off.
 */
export interface Trigger {
  kind: TriggerKind;
  object?: Object;
  /**
   * the ID of the event that shows it: the cordon, the change of the replicas, the first Pod's deletion, the exit, the Service's change
   */
  event: number;
  at: Instant;
  /**
   * the names of the Pods it ended, as far as the causes name them
   */
  pods: string[];
  /**
   * the field manager that made the change; absent if it is not known
   */
  actor?: string;
  /**
   * "drain of node2"
   */
  text: string;
}
/**
 * A Recurrence is how failures of one sign happened again and again.
 */
export interface Recurrence {
  /**
   * how many windows of one target
   */
  times: number;
  apart: Length;
  period?: Nanoseconds;
}
/**
 * An IncidentCause is a cause of one or several windows of an incident, in the words it has where it was measured best.
 */
export interface IncidentCause {
  /**
   * "route-outlives-pod"; "unexplained" is an honest answer
   */
  rule: string;
  /**
   * which of several ways it came about, of a rule that knows them apart: "one-replica"; absent if that was not seen
   */
  reason?: string;
  confidence: Confidence;
  /**
   * one sentence with names and figures
   */
  text: string;
  /**
   * what to change, with a number in it
   */
  fix?: string;
  evidence: Evidence[];
  /**
   * other rules that fit, with why they rank lower
   */
  rivals: string[];
  /**
   * how many of the window's failures it can have made; absent if all
   */
  explains?: number;
  /**
   * the numbers the text and the fix rest on
   */
  measures?: Measure[];
  /**
   * the IDs of those of which it is the most likely cause
   */
  windows: number[];
  /**
   * their failures
   */
  failed: number;
  /**
   * of windows of kind cut: the connections that were cut
   */
  cut?: number;
}
/**
 * Evidence is one fact a cause rests on.
 */
export interface Evidence {
  /**
   * the ID of an event
   */
  event?: number;
  /**
   * the name of a target
   */
  target?: string;
  at?: Instant;
  text: string;
}
/**
 * A Measure is a number with a name and bounds.
 */
export interface Measure {
  /**
   * "route-lag", "ready-early"
   */
  name: string;
  /**
   * the name of the Pod it is about
   */
  object: string;
  /**
   * the node whose routes they are: the prober's
   */
  node?: string;
  length: Length;
}
/**
 * A Window is a stretch in which requests to one target failed. Start and End are brackets: the
 * trouble began after the last good request and no later than the first failure was known.
 *
 * 	ok ok x x x ok   →   start ∈ [1,2]  end ∈ [4,5]
 */
export interface Window {
  /**
   * from 1, by start
   */
  id: number;
  target: string;
  kind: WindowKind;
  basis: Basis;
  start: Instant;
  end: Instant;
  length: Length;
  /**
   * the failures and the requests amid them, of time-outs all that were sent from the first to the last; of fewer than 3 failures with none amid them, all within the brackets
   */
  sent: number;
  failed: number;
  /**
   * requests of class local between the failures: counted neither as sent nor as failed, for the failure may be the prober's own
   */
  setAside?: number;
  /**
   * in a window of kind slow, which has no failures: the slow successes
   */
  slow?: number;
  /**
   * failed ÷ sent; of kind slow: slow ÷ sent
   */
  share: number;
  downtime: Length;
  blackout?: Length;
  /**
   * failures by class
   */
  classes: {
    [k: string]: number;
  };
  /**
   * who answered the successes inside
   */
  backends?: {
    [k: string]: number;
  };
  /**
   * the Pods whose own addresses failed meanwhile as most of its requests did
   */
  failing?: FailingPod[];
  /**
   * what its failures said, where their class alone does not tell what was wrong
   */
  errors?: ErrorText[];
  cut?: Instant;
  open: Open;
  most?: Most;
  /**
   * not final: later requests may change it
   */
  live?: boolean;
  ended?: Evidence;
  /**
   * most likely first; never empty in a judged window
   */
  causes: Cause[];
}
/**
 * A FailingPod is a Pod whose own address failed during a window.
 */
export interface FailingPod {
  /**
   * its name
   */
  pod: string;
  uid: string;
  /**
   * that asked it
   */
  target: string;
  since: Instant;
  /**
   * the ID of the event that shows what ended it, if that was before; absent if nothing had
   */
  ending?: number;
}
/**
 * An ErrorText is why requests of a class failed. The first 3 different texts of each target and class are kept:
 * others may have failed for further reasons.
 */
export interface ErrorText {
  class: string;
  text: string;
  first: Instant;
}
/**
 * Open tells at which side a window's bracket ends for want of observation, not at a good request.
 */
export interface Open {
  start: boolean;
  end: boolean;
}
/**
 * Most bounds an open window that unobserved time cuts: by the good requests beyond that time, and as if all of it
 * had been down. A window that measuring began or ended in has no such bound.
 */
export interface Most {
  length: Nanoseconds;
  downtime: Nanoseconds;
}
/**
 * A Cause is why a window opened, with its evidence and what else it could be.
 */
export interface Cause {
  /**
   * "route-outlives-pod"; "unexplained" is an honest answer
   */
  rule: string;
  /**
   * which of several ways it came about, of a rule that knows them apart: "one-replica"; absent if that was not seen
   */
  reason?: string;
  confidence: Confidence;
  /**
   * one sentence with names and figures
   */
  text: string;
  /**
   * what to change, with a number in it
   */
  fix?: string;
  evidence: Evidence[];
  /**
   * other rules that fit, with why they rank lower
   */
  rivals: string[];
  /**
   * how many of the window's failures it can have made; absent if all
   */
  explains?: number;
  /**
   * the numbers the text and the fix rest on
   */
  measures?: Measure[];
}
/**
 * Unobserved is time in which a target was not measured: neither up nor down.
 */
export interface Unobserved {
  target: string;
  start: Nanoseconds;
  end: Nanoseconds;
  /**
   * "not sent", "prober stalled", "local fault", "run ended early", "prober lost", "record damaged", "clock jumped"
   */
  reason: string;
}
/**
 * Held is what became of the connections of one held target.
 */
export interface Held {
  target: string;
  /**
   * that were to be held
   */
  connections: number;
  heartbeat: Nanoseconds;
  /**
   * connections that stood at least once
   */
  stood: number;
  /**
   * that stood when measuring ended, or stand now
   */
  standing: number;
  /**
   * that were cut at least once
   */
  cut: number;
  /**
   * of these, those that were cut at least once without an announcement by the peer
   */
  unwarned: number;
  /**
   * how often connections were cut, all together
   */
  cuts: number;
  /**
   * cuts that a stop of the prober may have led to: they are in none of the other counts but Cuts
   */
  stopped?: number;
  /**
   * connections that were cut and did not stand again
   */
  missing?: number;
  /**
   * of those that stood at the end, those whose last heartbeats had not been answered: they may have been cut
   */
  unproven?: number;
  /**
   * part of what became of them is not on record, as where the prober was lost
   */
  open?: boolean;
  /**
   * share of the measured time in which heartbeats were sent, 0 to 1
   */
  coverage: number;
  /**
   * changes of connections that are not on record: there may have been further cuts
   */
  notOnRecord?: number;
  back?: Length;
  /**
   * how often a connection was to be opened, the first time included
   */
  attempts: number;
  /**
   * attempts that failed, by class
   */
  failed?: {
    [k: string]: number;
  };
  /**
   * how many connections were on which Pod, according to the replies, just before the first cut; "" is one that did not say
   */
  before?: {
    [k: string]: number;
  };
  /**
   * the same when measuring ended, or now
   */
  after?: {
    [k: string]: number;
  };
  /**
   * each cut, by when it was noticed, up to a cap
   */
  list: HeldCut[];
  /**
   * how many cuts the cap left out
   */
  truncated?: number;
  /**
   * by start. Their IDs go on after those of the windows of the other targets
   */
  windows: CutWindow[];
}
/**
 * A HeldCut is one cut of one connection: its window is from Cut to Back.
 */
export interface HeldCut {
  /**
   * which of the connections, from 0
   */
  conn: number;
  /**
   * the ID of the window that it is in; absent of one that a stop of the prober may have led to
   */
  window?: number;
  cut: Instant;
  /**
   * "eof": closed by the peer; "reset"; "timeout_response": a heartbeat was not answered until the next was due; else what its end was
   */
  class: string;
  /**
   * the peer had announced it: Connection: close, a close frame, GOAWAY
   */
  warned?: boolean;
  idle: Length;
  back?: Instant;
  after?: Nanoseconds;
  /**
   * attempts to open it that failed meanwhile
   */
  failed?: number;
  /**
   * who had answered on it, by the reply's own word: the Pod
   */
  from?: string;
  /**
   * who answers now
   */
  to?: string;
  /**
   * where it went
   */
  fromAddr?: string;
  toAddr?: string;
  /**
   * a stop of the prober may have led to it
   */
  stopped?: boolean;
}
/**
 * A CutWindow is a time in which connections were cut: from the first cut until the last of them stood again. Cuts
 * less than --join apart share one.
 */
export interface CutWindow {
  /**
   * from 1, by start
   */
  id: number;
  target: string;
  kind: WindowKind;
  basis: Basis;
  start: Instant;
  end: Instant;
  length: Length;
  /**
   * the failures and the requests amid them, of time-outs all that were sent from the first to the last; of fewer than 3 failures with none amid them, all within the brackets
   */
  sent: number;
  failed: number;
  /**
   * requests of class local between the failures: counted neither as sent nor as failed, for the failure may be the prober's own
   */
  setAside?: number;
  /**
   * in a window of kind slow, which has no failures: the slow successes
   */
  slow?: number;
  /**
   * failed ÷ sent; of kind slow: slow ÷ sent
   */
  share: number;
  downtime: Length;
  blackout?: Length;
  /**
   * failures by class
   */
  classes: {
    [k: string]: number;
  };
  /**
   * who answered the successes inside
   */
  backends?: {
    [k: string]: number;
  };
  /**
   * the Pods whose own addresses failed meanwhile as most of its requests did
   */
  failing?: FailingPod[];
  /**
   * what its failures said, where their class alone does not tell what was wrong
   */
  errors?: ErrorText[];
  cut?: Instant;
  open: Open;
  most?: Most;
  /**
   * not final: later requests may change it
   */
  live?: boolean;
  ended?: Evidence;
  /**
   * most likely first; never empty in a judged window
   */
  causes: Cause[];
  /**
   * how often connections were cut: more than Failed where one was cut twice
   */
  cuts: number;
  /**
   * connections that were cut without an announcement
   */
  unwarned: number;
  back?: Length;
  /**
   * that did not stand again
   */
  missing?: number;
  /**
   * to open them again
   */
  attempts: number;
  /**
   * attempts that failed, by class
   */
  refused?: {
    [k: string]: number;
  };
  /**
   * the most attempts within one second: the reconnect storm
   */
  busiest: number;
  /**
   * which Pods the connections were on
   */
  from?: {
    [k: string]: number;
  };
  /**
   * which Pods they came back on
   */
  to?: {
    [k: string]: number;
  };
}
/**
 * A Failure is one failed request.
 */
export interface Failure {
  target: string;
  seq: number;
  due: Nanoseconds;
  sent: Nanoseconds;
  done: Nanoseconds;
  class: Class;
  code?: number;
  backend?: string;
  /**
   * where the connection went, or was to go; only of targets whose connections go to several addresses in turn
   */
  peer?: string;
  reused?: boolean;
  dns?: Nanoseconds;
  connect?: Nanoseconds;
  tls?: Nanoseconds;
  firstByte?: Nanoseconds;
  error?: Nanoseconds;
}
/**
 * Buckets are per-target series over slots of Width, slot i beginning at i × Width after T0, by the
 * instant a request was sent.
 */
export interface Buckets {
  width: Nanoseconds;
  targets: {
    [k: string]: BucketSeries;
  };
}
/**
 * BucketSeries holds one entry per slot. A slot with Sent 0 was not measured.
 */
export interface BucketSeries {
  /**
   * index of the first slot in the lists below; only those of direct targets leave out slots
   */
  start?: number;
  sent: number[];
  failed: number[];
  /**
   * share of the slot not observed, 0 to 1
   */
  unobserved: number[];
  /**
   * of ok requests, from Due
   */
  latency: SparseCounts[];
  /**
   * Classes tells of which class the failed requests are: for each class that occurs, pairs of the
   * index of a slot and how many of its requests failed so.
   */
  classes?: {
    [k: string]: SparseCounts;
  };
}
/**
 * Event is a fact of the timeline with its place on it.
 */
export interface Event {
  id: number;
  seen: Nanoseconds;
  at: Instant;
  stamp?: string;
  writer?: string;
  /**
   * the name of who learned of it; absent in a run with one source
   */
  source?: string;
  kind: EventKind;
  from?: string;
  to?: string;
  object?: Object;
  addr?: string;
  detail?: string;
  /**
   * NAMESPACE/NAME of the Service an endpoint is of
   */
  service?: string;
  /**
   * the name of the Service's port an endpoint is of; absent if it has none
   */
  portName?: string;
  /**
   * the number of an endpoint's own port
   */
  port?: number;
  /**
   * NAMESPACE/NAME of each Service that a watch is about; absent: every one of the run
   */
  services?: string[];
  /**
   * of a container or command that ended
   */
  exitCode?: number;
  grace?: Nanoseconds;
  /**
   * how often it happened so far: a container's restarts, connections that passed an address over
   */
  count?: number;
  /**
   * the HTTP status of a failed request, or its grpc-status if below 100; absent if none was read
   */
  status?: number;
  /**
   * KIND/NAME of a Pod's controller
   */
  owner?: string;
  /**
   * the ID of a Pod's template, whose snapshot says what it has
   */
  template?: string;
  /**
   * the field manager that made this change of an object's spec; absent if it is not known
   */
  actor?: string;
  snapshot?: Snapshot;
  preflight?: Preflight;
  lookup?: Lookup;
}
/**
 * A Snapshot is the part of an object's spec and status that causes need. One of its fields is set.
 */
export interface Snapshot {
  template?: PodTemplate;
  workload?: Workload;
  budget?: Budget;
  service?: ServiceSpec;
}
/**
 * A PodTemplate is what Pods of one controller have in common. It never changes: Pods with another spec have another
 * template.
 */
export interface PodTemplate {
  /**
   * as the pod-seen events of its Pods name it
   */
  id: string;
  /**
   * the label controller-revision-hash; absent where each template has a controller of its own, as in a Deployment
   */
  revision?: string;
  grace: Nanoseconds;
  /**
   * Always, OnFailure, Never
   */
  restartPolicy?: string;
  hostNetwork?: boolean;
  containers: Container[];
}
/**
 * A Container is one of a Pod, without init containers that end before the others begin.
 */
export interface Container {
  name: string;
  /**
   * an init container that is restarted always: it starts before the others and ends after them
   */
  sidecar?: boolean;
  preStop?: Hook;
  readiness?: Probe;
  liveness?: Probe;
  startup?: Probe;
}
/**
 * A Hook runs before a container is asked to end.
 */
export interface Hook {
  /**
   * sleep, exec, httpGet, tcpSocket
   */
  kind: string;
  sleep?: Nanoseconds;
  /**
   * of an exec that does more: what it runs, with credentials masked
   */
  command?: string;
}
/**
 * A Probe is how a kubelet asks a container whether it is well.
 */
export interface Probe {
  /**
   * exec, httpGet, tcpSocket, grpc
   */
  kind: string;
  path?: string;
  /**
   * its number, or its name
   */
  port?: string;
  delay?: Nanoseconds;
  period: Nanoseconds;
  timeout: Nanoseconds;
  /**
   * so many failures in a row count
   */
  threshold: number;
}
/**
 * A Workload is a Deployment, a ReplicaSet or a StatefulSet.
 */
export interface Workload {
  /**
   * rises with each change of the spec
   */
  generation: number;
  /**
   * KIND/NAME of its controller: a ReplicaSet's Deployment
   */
  owner?: string;
  /**
   * asked for
   */
  replicas: number;
  /**
   * Recreate, RollingUpdate, OnDelete; absent of a ReplicaSet
   */
  strategy?: string;
  maxSurge?: string;
  maxUnavailable?: string;
  minReady?: Nanoseconds;
  /**
   * an autoscaler has set Replicas; else it is not known whether one may
   */
  autoscaled?: boolean;
  status: Replicas;
}
/**
 * Replicas are how many Pods of a workload there are.
 */
export interface Replicas {
  /**
   * not terminating ones
   */
  existing: number;
  /**
   * of the newest template
   */
  updated?: number;
  ready: number;
  available: number;
  /**
   * absent where the cluster does not say
   */
  terminating?: number;
}
/**
 * A Budget is a PodDisruptionBudget.
 */
export interface Budget {
  minAvailable?: string;
  maxUnavailable?: string;
  /**
   * unhealthyPodEvictionPolicy: IfHealthyBudget, AlwaysAllow
   */
  evictUnhealthy?: string;
  /**
   * Pods that are
   */
  healthy: number;
  /**
   * Pods that must be
   */
  desired: number;
  /**
   * Pods it is about
   */
  expected: number;
  /**
   * Pods that may be evicted now
   */
  allowed: number;
}
/**
 * A ServiceSpec is how a Service chooses where its requests go.
 */
export interface ServiceSpec {
  selector?: string;
  type: string;
  /**
   * ClientIP; absent if there is none
   */
  affinity?: string;
  /**
   * internalTrafficPolicy: Cluster, Local
   */
  internal?: string;
  /**
   * externalTrafficPolicy: Cluster, Local
   */
  external?: string;
  /**
   * trafficDistribution: PreferClose, PreferSameZone, PreferSameNode
   */
  distribution?: string;
  /**
   * publishNotReadyAddresses
   */
  publishNotReady?: boolean;
}
/**
 * A Preflight is what was predicted of a Service before it was measured, from its spec and the placement of its Pods.
 */
export interface Preflight {
  /**
   * that was to be drained; absent if none was named
   */
  node?: string;
  /**
   * all that were asked
   */
  rules: AskedRule[];
  /**
   * the gravest first
   */
  predictions: Prediction[];
}
/**
 * An AskedRule is a rule of preflight that was asked about a Service.
 */
export interface AskedRule {
  /**
   * such as LP05
   */
  id: string;
  name: string;
  /**
   * the causes that it is there to predict, as RULE or RULE/REASON
   */
  predicts?: string[];
  /**
   * why it could not judge; absent if it could
   */
  unjudged?: string;
}
/**
 * A Prediction is one finding of a rule of preflight.
 */
export interface Prediction {
  /**
   * its ID
   */
  rule: string;
  name: string;
  /**
   * will-lose, may-lose, will-block, blind
   */
  severity: string;
  text: string;
  /**
   * "Deployment/web: spec.replicas = 1"
   */
  evidence: string[];
  fix: string;
  /**
   * an incident with one of them confirms it, as RULE or RULE/REASON; absent if a run names no such cause
   */
  causes?: string[];
  when?: Disturbance;
  /**
   * where that is; absent if it may be any
   */
  node?: string;
  /**
   * why somebody accepts it; it is a prediction all the same
   */
  accepted?: string;
}
/**
 * A Lookup is how a DNS server answers for a name.
 */
export interface Lookup {
  /**
   * with a dot at its end
   */
  name: string;
  /**
   * what it has from then on, lowest first; none where the server says that it has none
   */
  addrs?: Addr[];
  /**
   * queries so far, without those whose answer is awaited
   */
  asked: number;
  /**
   * of them
   */
  answered: number;
  shortestTTL?: Nanoseconds;
  longestTTL?: Nanoseconds;
}
export interface Addr {}
/**
 * A WatchedService is a Service whose endpoints were watched.
 */
export interface WatchedService {
  /**
   * NAMESPACE/NAME; empty where the recording does not say
   */
  name: string;
  /**
   * each time their number changed, by time; never empty
   */
  endpoints: EndpointStep[];
  verdict?: ServiceVerdict;
}
/**
 * An EndpointStep is how many endpoints a Service had from At on. A Pod counts once, whatever addresses and ports it
 * has; an address counts where no Pod is named.
 */
export interface EndpointStep {
  at: Instant;
  ready: number;
  /**
   * ready, or terminating and still serving
   */
  serving: number;
}
/**
 * A ServiceVerdict is what was found of one Service. Where several targets are judged, sent and failed add over them
 * and the others are the worst target's, as in a Verdict.
 */
export interface ServiceVerdict {
  sent: number;
  failed: number;
  downtime: Downtime;
  coverage: number;
  /**
   * how many it had failures in
   */
  incidents: number;
  cause?: ServiceCause;
}
/**
 * Downtime is request-weighted: the time a service failing every request would need to lose as many. Its bounds hold
 * what may lie in unobserved time, too.
 */
export interface Downtime {
  total: Length;
  /**
   * it may be more than Total.Max: a window was under way when measuring began or ended
   */
  open?: boolean;
}
/**
 * A ServiceCause is the likeliest cause of most of a Service's failures, in the words that it has in the window with
 * the most.
 */
export interface ServiceCause {
  rule: string;
  confidence: Confidence;
  text: string;
  fix?: string;
  /**
   * of the Service's failures, those in windows with this cause
   */
  failed: number;
}
/**
 * A Route is how one node followed the change of an endpoint: from when on requests from it were routed there, or no
 * longer.
 *
 * It is known by who answered. While a route to a Pod is one of N, requests in a row that other Pods answer prove,
 * with 99.9 % confidence, that there is none.
 */
export interface Route {
  change: RouteChange;
  /**
   * NAMESPACE/NAME
   */
  service: string;
  /**
   * its name
   */
  pod: string;
  podUID: string;
  /**
   * from which requests were sent
   */
  node: string;
  /**
   * which sent them
   */
  target: string;
  /**
   * the ID of the event that is the change of the endpoint
   */
  event: number;
  asked?: Instant;
  api: Instant;
  changed: Instant;
  /**
   * they were not seen to change: too few requests followed
   */
  open?: boolean;
  lag: Length;
  lost?: LostTime;
  waited?: WaitedTime;
}
/**
 * LostTime is for how long a node still routed to a Pod after it had stopped, by what it waited for. The parts sum to
 * the whole. Of a Route that is open, the proxy's part is a lower bound.
 */
export interface LostTime {
  min: Nanoseconds;
  max: Nanoseconds;
  appEarly: Length;
  controller: Length;
  proxy: Length;
  mostly?: LostPart;
}
/**
 * WaitedTime is how long after a new Pod's first container had started a node routed to it, by what it waited for.
 * The parts sum to the whole. Of a Route that is open, the proxy's part is a lower bound. When the node's routes
 * came is known by the first answer: the proxy's part has the time until a request happened to be routed there.
 */
export interface WaitedTime {
  min: Nanoseconds;
  max: Nanoseconds;
  startUp: Length;
  controller: Length;
  proxy: Length;
  mostly?: LostPart;
}
/**
 * LateRoutes says that a node, a zone or a whole change stands out among the Routes of a run: the routes followed
 * late there.
 */
export interface LateRoutes {
  of: LateOf;
  /**
   * the node's or the zone's; of a change, the Pod's whose endpoint came or went
   */
  name: string;
  /**
   * of how many changes it is true
   */
  changes: number;
  /**
   * of so many that it is known of
   */
  known: number;
  behind: Length;
  /**
   * that may be longer: the routes were not seen to follow
   */
  open?: boolean;
  /**
   * one sentence with names and figures
   */
  text: string;
}
/**
 * Pod is one Pod's life, as far as it was seen. Instants taken from the watch are when the change
 * happened; those taken from the traffic (Stopped, FirstOK, LastOK, LastFailure) rest on the run's own clock alone.
 */
export interface Pod {
  namespace: string;
  name: string;
  uid: string;
  node?: string;
  ip?: string;
  created?: Instant;
  scheduled?: Instant;
  started?: Instant;
  ready?: Instant;
  deleted?: Instant;
  killing?: Instant;
  notReady?: Instant;
  endpointReady?: Instant;
  endpointNotReady?: Instant;
  endpointRemoved?: Instant;
  stopped?: Instant;
  exited?: Instant;
  gone?: Instant;
  exitCode?: number;
  firstOk?: Nanoseconds;
  lastOk?: Nanoseconds;
  lastFailure?: Nanoseconds;
  /**
   * KIND/NAME of its controller
   */
  owner?: string;
  /**
   * the ID of its template, which a snapshot event has
   */
  template?: string;
  ending?: Ending;
  /**
   * for the lane: what it was from when on
   */
  states: PodState[];
}
/**
 * An Ending is who or what ended a Pod.
 */
export interface Ending {
  by: EndedBy;
  /**
   * "evicted through the API, node2 being cordoned (a drain)"
   */
  text: string;
  /**
   * the ID of the event that shows it
   */
  event: number;
  of?: Object;
  /**
   * the ID of the event by which that was asked for: the change of the workload, the cordon; absent if it was not seen
   */
  change?: number;
}
/**
 * PodState is a stretch of a Pod's lane. It lasts until the next one's Start.
 */
export interface PodState {
  start: Nanoseconds;
  /**
   * pending, creating, running, ready, terminating+serving, terminating, gone, crashed
   */
  state: "pending" | "creating" | "running" | "ready" | "terminating+serving" | "terminating" | "gone" | "crashed";
}
/**
 * KeepServing says how many requests would still have failed, had each Pod whose routes outlived it served on for
 * longer before it stopped: as with a preStop sleep. It counts the failures that were seen, by when they were sent,
 * and supposes that routes change when they did.
 */
export interface KeepServing {
  /**
   * requests of the windows that it is about: those whose first cause is that routes outlived Pods, with at least medium confidence
   */
  failed: number;
  /**
   * other failures of judged targets, which serving longer is not known to mend
   */
  others: number;
  /**
   * by Longer, up to the first that leaves none
   */
  left: ServedLonger[];
}
/**
 * ServedLonger is what would have been left of the failures.
 */
export interface ServedLonger {
  longer: Nanoseconds;
  /**
   * at least so many
   */
  min: number;
  /**
   * at most
   */
  max: number;
}
/**
 * Verdict is the run in one word, and the figures it rests on. Where several targets are judged,
 * failed adds over them and the others are the worst target's.
 */
export interface Verdict {
  result: Result;
  exitCode: number;
  /**
   * why, in sentences; what makes a run inconclusive
   */
  reasons: string[];
  gates: GateResult[];
  sent: number;
  failed: number;
  errorRate: number;
  /**
   * of kind outage or partial
   */
  windows: number;
  downtime: Downtime;
  longestWindow?: Length;
  longestBlackout?: Length;
  /**
   * what a success proves of targets of which no answer is awaited, in words; absent if there is none
   */
  blind?: string;
  /**
   * what became of connections that were kept open, in a sentence; absent if none were
   */
  held?: string;
  /**
   * what is worth knowing and makes no window, in sentences
   */
  notes?: string[];
  detectionLimit: Nanoseconds;
  /**
   * the worst judged target's; of targets that send the same from several sources, what they have together
   */
  coverage: number;
  /**
   * what each node observed of a run that measures from several, the least first
   */
  nodes?: NodeCoverage[];
  latencyP99?: Nanoseconds;
  validity: Validity;
}
/**
 * GateResult is one gate, judged.
 */
export interface GateResult {
  expr: string;
  /**
   * what it limits: "downtime.total"
   */
  metric: string;
  unit: Unit;
  outcome: GateOutcome;
  value?: Range;
}
/**
 * Range holds a gate's value in the gate's unit.
 */
export interface Range {
  min: number;
  max: number;
  /**
   * it may be more than Max: a window was under way when measuring began or ended
   */
  open?: boolean;
}
/**
 * A NodeCoverage is how much one node observed of what is measured from several nodes.
 */
export interface NodeCoverage {
  node: string;
  /**
   * observed ÷ measured time, of what it observed least
   */
  coverage: number;
  unobserved: Nanoseconds;
  /**
   * its target of which that is so; absent if nothing was measured from the node
   */
  target?: string;
}
/**
 * Validity tells how good the measurement itself was.
 */
export interface Validity {
  /**
   * share of requests of judged targets sent late
   */
  late: number;
  notSent: number;
  /**
   * of these, requests for which the prober had no file descriptor, port or memory
   */
  local?: number;
  /**
   * the system's error then, such as "too many open files"
   */
  shortage?: string;
  watchGaps: number;
  unobserved: Nanoseconds;
  /**
   * "ok", "absent", or what went wrong
   */
  control: string;
  stalls: number;
  /**
   * watched kinds we had no right to see
   */
  lanesOff?: string[];
  /**
   * Pods with an endpoint that were never probed at their own address, in a run that probes some
   */
  notProbed?: number;
}
/**
 * Hammer is the background load beside the probes, made with rakyll/hey. It keeps the Service busy, as a drain would
 * find it. It is no evidence: no window, no downtime and no gate rests on it, and what it counts as well may have
 * failed, for hey sends a request again without a word when a kept connection dies, and does not notice a reply that
 * is cut off.
 */
export interface Hammer {
  /**
   * hey's flags
   */
  args: string;
  start?: Nanoseconds;
  end?: Nanoseconds;
  summary?: HammerSummary;
  /**
   * why it failed
   */
  error?: string;
}
/**
 * HammerSummary is what the background load saw, in a closed loop: a worker sends its next request when the last one
 * has ended. So it slows down with the Service, and says nothing of when requests failed.
 */
export interface HammerSummary {
  duration: Nanoseconds;
  /**
   * that ended, with a reply or an error
   */
  requests: number;
  /**
   * requests ÷ duration, per second
   */
  rate: number;
  /**
   * requests cut off, for they had no reply a second after the load's end; they are neither in requests nor in errors
   */
  unanswered?: number;
  /**
   * of the bodies whose length was announced, whether or not they came whole
   */
  bytes?: number;
  latency?: HammerLatency;
  /**
   * how many replies had each HTTP status code
   */
  statuses: {
    [k: string]: number;
  };
  /**
   * how many requests got no reply, by error text without what differs from connection to connection
   */
  errors: {
    [k: string]: number;
  };
}
/**
 * HammerLatency is how long replies took from when their requests were sent, not from when they were due. A quantile
 * is absent where hey did not say it.
 */
export interface HammerLatency {
  mean: Nanoseconds;
  min: Nanoseconds;
  p50?: Nanoseconds;
  p90?: Nanoseconds;
  p95?: Nanoseconds;
  p99?: Nanoseconds;
  max: Nanoseconds;
}
/**
 * A Scorecard is what preflight predicted before a run, against what happened in it. What is blind is no prediction.
 */
export interface Scorecard {
  /**
   * confirmed + refuted + notTested
   */
  predicted: number;
  confirmed: number;
  refuted: number;
  notTested: number;
  /**
   * incidents with a cause that a rule is there to predict, and no prediction of it
   */
  missed: number;
  predictions: ScoredPrediction[];
  misses: Miss[];
  /**
   * rules that could not judge
   */
  unjudged: UnjudgedRule[];
}
/**
 * A ScoredPrediction is a prediction with what the run says of it.
 */
export interface ScoredPrediction {
  /**
   * NAMESPACE/NAME
   */
  service: string;
  prediction: Prediction;
  outcome: PredictionOutcome;
  /**
   * what the outcome rests on
   */
  why: string;
  /**
   * that confirm it, by ID
   */
  incidents?: number[];
}
/**
 * A Miss is a cause of an incident which preflight is there to predict, and did not.
 */
export interface Miss {
  service: string;
  /**
   * its ID
   */
  incident: number;
  /**
   * RULE, or RULE/REASON
   */
  cause: string;
  /**
   * which rules of preflight found nothing or could not judge
   */
  why: string;
}
/**
 * An UnjudgedRule is a rule of preflight that could not judge.
 */
export interface UnjudgedRule {
  service: string;
  /**
   * its ID; absent if none could
   */
  rule?: string;
  why: string;
}
