import { type BucketChunk, type ControlPlane, type Counts, type CutWindow, type Event, type Group, type Held, type Incident, type KeepServing, type LateRoutes, type Ns, type Pod, type Route, type RunInfo, type Said, type Scorecard, type Series, type Source, type Target, type TogetherChunk, type Tool, type Unobserved, type Verdict, type WatchedService, type Window, judged } from "./model";
import { type Together, joinedTogether, together } from "./slots";
import { membersOf, type TargetGroup, targetGroups } from "./sources";

/** A change of the state, as the server sends it. The protocol is described in dashboard/doc.go. */
export interface Delta {
  protocol: number;
  epoch: string;
  seq: number;
  reset?: boolean;
  more?: boolean;
  head?: boolean;
  put?: Record<string, unknown>;
  delete?: string[];
}

/** The version of the protocol this page speaks. */
export const PROTOCOL = 1;

const kindOrder = { new: 0, reused: 1, held: 2, direct: 3, control: 4, plane: 5 };

/**
 * Run is the page's copy of the store: values under keys, and lists made from them. A list stays
 * the same array until one of its values changes, so views can tell by identity whether to redraw.
 */
export class Run {
  private groups = new Map<string, Map<string, unknown>>(); // group → key → value
  private lists = new Map<string, unknown>(); // made from a group, until one of its values changes
  private judged: Together | undefined;
  private asked = new Map<string, number>(); // part → how many views want it
  private got = new Map<string, { version: number; at: number }>(); // part → the version of the state, and when it came in milliseconds
  private groupsMade: TargetGroup[] = [];
  private groupsAt = -1; // the version that they are of
  private windowsMade: Window[] = [];
  private windowsAt = -1; // the version that they are of
  private states = 0; // how often the state has changed
  private judgedAt = -1; // the version that it is of

  /** partial tells that events and Pods, of which there are many, are still to come. */
  partial = false;

  /** version rises with every change. */
  version = 0;

  apply(delta: Delta): void {
    this.version++;
    this.states++;
    this.partial = !!delta.more && (this.partial || !!delta.reset);
    if (delta.reset) {
      this.groups.clear();
      this.lists.clear();
      this.got.clear();
    }
    const width = this.one("bucketWidth");
    for (const [key, value] of Object.entries(delta.put ?? {})) this.changing(key).set(key, value);
    for (const key of delta.delete ?? []) this.changing(key).delete(key);
    if (this.many && width !== this.one("bucketWidth")) this.forgetSeries();
  }

  /** many tells that the state holds groups of targets, and that the targets themselves are details. */
  get many(): boolean { return this.one("counts") !== undefined; }

  /** want notes that a view shows a part of the details; the returned function ends that. */
  want(part: string): () => void {
    this.asked.set(part, (this.asked.get(part) ?? 0) + 1);
    this.onWant();
    return () => {
      const left = this.asked.get(part)! - 1;
      if (left) this.asked.set(part, left);
      else this.asked.delete(part);
    };
  }

  /** onWant is called when something more is wanted. */
  onWant: () => void = () => {};

  /** due are the wanted parts that have not come yet, and those that are older than the state and than `age` milliseconds, the oldest first. */
  due(now: number, age: number): string[] {
    if (!this.many) return [];
    const old = (part: string): number => this.got.get(part)?.at ?? -Infinity;
    const stale = (part: string): boolean => !this.got.has(part) || (this.got.get(part)!.version < this.states && now - old(part) >= age);
    return [...this.asked.keys()].filter(stale).sort((a, b) => old(a) - old(b));
  }

  /** details takes in what has come of some parts. What was made of other slots than the state's is asked for again. */
  details(parts: string[], entries: Record<string, unknown>, now: number): void {
    this.failed = undefined;
    if (entries.bucketWidth !== this.one("bucketWidth")) return;
    this.version++;
    for (const part of parts) this.got.set(part, { version: this.states, at: now });
    for (const [key, value] of Object.entries(entries)) if (key !== "bucketWidth") this.changing(key).set(key, value);
  }

  /** failed is since when requests for details fail, in milliseconds since 1970, and why the last one did: what is shown of them is as it was before. */
  failed: { since: number; why: string } | undefined;

  /** failDetails notes that a request for details failed. */
  failDetails(why: string, now: number): void {
    this.version++;
    this.failed = { since: this.failed?.since ?? now, why };
  }

  /** has tells whether a part has come, or need not. */
  has(part: string): boolean { return !this.many || this.got.has(part); }

  /** forgetSeries drops series that have slots of another width. */
  private forgetSeries(): void {
    for (const name of [...this.groups.keys()].filter((g) => g.startsWith("bucket/"))) {
      this.groups.delete(name);
      this.lists.delete(name);
    }
    for (const part of [...this.got.keys()].filter((p) => p.startsWith("series/"))) this.got.delete(part);
  }

  get loaded(): boolean { return this.one("t0") !== undefined; }
  get tool(): Tool | undefined { return this.one("tool"); }
  get info(): RunInfo | undefined { return this.one("run"); }
  get verdict(): Verdict | undefined { return this.one("verdict"); }
  get said(): Said | undefined { return this.one("said"); }
  get scorecard(): Scorecard | undefined { return this.one("scorecard"); }
  get live(): boolean { return this.one<boolean>("live") ?? false; }
  get bucketWidth(): Ns { return this.one<Ns>("bucketWidth") ?? 1e9; }
  get services(): WatchedService[] { return this.one<WatchedService[] | null>("services") ?? none; }
  get incidents(): Incident[] { return this.one<Incident[] | null>("incidents") ?? none; }
  get held(): Held[] { return this.one<Held[] | null>("held") ?? none; }
  /** heldWindows are those in which connections were cut that were kept open. */
  get heldWindows(): CutWindow[] { return this.held.flatMap((h) => h.windows); }
  /** allWindows are the windows of requests and of held connections, in order of time. */
  get allWindows(): Window[] {
    if (this.windowsAt !== this.version) [this.windowsMade, this.windowsAt] = [[...this.windows, ...this.heldWindows].sort(byStart), this.version];
    return this.windowsMade;
  }
  get controlPlane(): ControlPlane | undefined { return this.one("controlPlane"); }
  get keepServing(): KeepServing | undefined { return this.one("keepServing"); }
  get sources(): Source[] { return this.one<Source[] | null>("sources") ?? none; }
  get routes(): Route[] { return this.one<Route[] | null>("routes") ?? none; }
  get late(): LateRoutes[] { return this.one<LateRoutes[] | null>("late") ?? none; }
  /** unobserved is when judged targets were not observed; of many targets, of those that have come. */
  get unobserved(): Unobserved[] {
    return this.many ? this.made("unobserved/", (all: Unobserved[][]) => all.flat()) : (this.one<Unobserved[] | null>("unobserved") ?? none);
  }
  get counts(): Counts | undefined { return this.one("counts"); }
  /** notMeasured is when nothing was measured from a node, where there are many targets. */
  get notMeasured(): Record<string, { start: Ns; end: Ns }[]> | undefined { return this.one("notMeasured"); }

  /** t0 in milliseconds since 1970, with the fraction that Date leaves out. */
  get t0(): number {
    const text = this.one<string>("t0") ?? "";
    const fraction = /\.(\d+)/.exec(text)?.[1] ?? "";
    const whole = Date.parse(text.replace(/\.\d+/, ""));
    return Number.isNaN(whole) ? 0 : whole + Number(`0.${fraction || 0}`) * 1000;
  }

  /** now is how far time has come: the end of what can be shown. */
  get now(): Ns {
    const duration = this.info?.duration ?? 0;
    return this.live ? Math.max(this.one<Ns>("now") ?? 0, duration) : duration || (this.one<Ns>("now") ?? 0);
  }

  /** groupList are the judged targets, those together that differ in nothing but the node they are measured from. */
  get groupList(): TargetGroup[] {
    if (this.groupsAt !== this.version) [this.groupsMade, this.groupsAt] = [this.makeGroups(), this.version];
    return this.groupsMade;
  }

  private makeGroups(): TargetGroup[] {
    if (!this.many) return targetGroups(this.targets, this.sources);
    return this.list<Group>("group", (a, b) => kindOrder[a.kind] - kindOrder[b.kind] || a.id - b.id).map((g) => ({ ...g, members: membersOf(this.one<string[]>(`members/${g.name}`), (name) => this.one(`target/${name}`)) }));
  }

  /** Judged targets first, then each endpoint's own, then the control. */
  get targets(): Target[] {
    return this.list<Target>("target", (a, b) => kindOrder[a.kind] - kindOrder[b.kind] || a.id - b.id);
  }
  get windows(): Window[] {
    return this.list<Window>("window", byStart);
  }
  get events(): Event[] {
    return this.list<Event>("event", (a, b) => place(a) - place(b) || a.id - b.id);
  }
  get pods(): Pod[] {
    return this.list<Pod>("pod", (a, b) => firstState(a) - firstState(b) || compare(a.name, b.name));
  }

  event(id: number): Event | undefined { return this.one(`event/${id}`); }

  /** judgedTargets is how many targets count for the verdict. */
  get judgedTargets(): number { return this.counts?.judged ?? this.targets.filter((t) => judged(t.kind)).length; }

  /** together is what the targets show together that count for the verdict. */
  get together(): Together {
    if (this.many) return this.togetherOf("");
    if (!this.judged || this.judgedAt !== this.version) this.judged = together(this.targets.filter((t) => judged(t.kind)).map((t) => this.series(t.name)));
    this.judgedAt = this.version;
    return this.judged;
  }

  /** togetherOf is what a group's targets show together, where there are many. */
  togetherOf(group: string): Together {
    return this.made(`together/${group}/`, (chunks: TogetherChunk[]) => joinedTogether(chunks));
  }

  /** series returns a target's slots, put together from their chunks. */
  series(target: string): Series {
    return this.made(`bucket/${target}/`, joined);
  }

  private one<T>(key: string): T | undefined {
    return this.groups.get(groupOf(key))?.get(key) as T | undefined;
  }

  private list<T>(name: string, order: (a: T, b: T) => number): T[] {
    return this.made(`${name}/`, (all: T[]) => all.sort(order));
  }

  private made<T, R>(group: string, make: (all: T[]) => R): R {
    if (!this.lists.has(group)) this.lists.set(group, make([...(this.groups.get(group)?.values() ?? [])] as T[]));
    return this.lists.get(group) as R;
  }

  /** changing returns the group of key for a change, and drops what was made from it. */
  private changing(key: string): Map<string, unknown> {
    const name = groupOf(key);
    this.lists.delete(name);
    let group = this.groups.get(name);
    if (!group) this.groups.set(name, (group = new Map()));
    return group;
  }
}

/** groupOf is what a key lies under: "event/" for an event, "bucket/NAME/" for a target's slots, "" for a single value. */
function groupOf(key: string): string {
  const end = key.startsWith("bucket/") || key.startsWith("together/") ? key.lastIndexOf("/") : key.indexOf("/");
  return key.slice(0, end + 1);
}

/** joined puts a series together from its chunks. */
function joined(chunks: BucketChunk[]): Series {
  const series: Series = { sent: [], failed: [], unobserved: [], latency: [], classes: new Map() };
  for (const chunk of chunks.sort((a, b) => a.start - b.start)) {
    for (let i = 0; i < chunk.sent.length; i++) {
      const slot = chunk.start + i;
      for (let before = series.sent.length; before < slot; before++) { // not measured
        series.sent[before] = series.failed[before] = series.unobserved[before] = 0;
        series.latency[before] = none;
      }
      series.sent[slot] = chunk.sent[i]!;
      series.failed[slot] = chunk.failed[i] ?? 0;
      series.unobserved[slot] = chunk.unobserved?.[i] ?? 0;
      series.latency[slot] = chunk.latency?.[i] ?? none;
    }
    for (const [name, pairs] of Object.entries(chunk.classes ?? {})) {
      for (let i = 0; i + 1 < pairs.length; i += 2) {
        let slot = series.classes.get(pairs[i]!);
        if (!slot) series.classes.set(pairs[i]!, (slot = Object.create(null) as Record<string, number>));
        slot[name] = pairs[i + 1]!;
      }
    }
  }
  return series;
}

const none: never[] = [];

/** place is where an event stands on the axis: the latest it can have happened. */
export const place = (e: Event): Ns => e.at?.latest ?? e.seen;

const byStart = (a: Window, b: Window): number => a.start.earliest - b.start.earliest || a.id - b.id;
const firstState = (p: Pod): Ns => p.states?.[0]?.start ?? 0;
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
