import { shortPod } from "./format";
import type { ControlPlane, Event, Ns, Pod } from "./model";
import { place } from "./run";

/** A lane is one thing in the cluster and the states it went through, each lasting until the next. */
export interface Lane {
  id: string;
  kind: "node" | "check" | "plane" | "pod" | "endpoint";
  label: string;
  title: string;
  note?: string;
  services?: string[]; // NAMESPACE/NAME of those that it is an endpoint of; none where that is not known
  namespace?: string;
  came?: boolean; // it was not there when the run first looked
  exits?: Exit[]; // of a Pod's containers
  states: { start: Ns; state: string }[];
}

/** An exit is the end of a container: at an instant, with a code. */
export interface Exit { at: Ns; code: number; ending: boolean }

const nothing = new Set(["gone", "absent", ""]); // states in which there is nothing to draw

/** present tells whether a state is drawn at all. */
export const present = (state: string): boolean => !nothing.has(state);

const states = new Set(["node-ready", "node-schedulable", "node-gone"]);

/** nodeLanes reads each node's readiness and whether it was cordoned. */
export function nodeLanes(events: Event[]): Lane[] {
  const nodes = new Map<string, { ready: string; schedulable: string; lane: Lane }>();
  for (const e of events) {
    const name = e.object?.name;
    if (!name || !states.has(e.kind)) continue;
    let node = nodes.get(name);
    if (!node) nodes.set(name, (node = { ready: "true", schedulable: "true", lane: { id: name, kind: "node", label: name, title: `node ${name}`, states: [] } }));
    if (e.kind === "node-ready") node.ready = e.to ?? "";
    if (e.kind === "node-schedulable") node.schedulable = e.to ?? "";
    const state = e.kind === "node-gone" ? "gone" : node.ready !== "true" ? "node not ready" : node.schedulable === "false" ? "cordoned" : "ready";
    if (node.lane.states.at(-1)?.state !== state) node.lane.states.push({ start: place(e), state });
  }
  return [...nodes.values()].map((n) => n.lane).sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** checkLanes reads what each node answers to the health checks of load balancers, a lane for each port. */
export function checkLanes(events: Event[]): Lane[] {
  const lanes = new Map<string, Lane>();
  for (const e of events) {
    const node = e.object?.name;
    if (e.kind !== "node-check" || !node) continue;
    const port = endpointAddress(e);
    const id = `${node} ${port}`;
    const of = e.service ? `the health-check node port of ${e.service}` : "kube-proxy's own health check";
    let lane = lanes.get(id);
    if (!lane) lanes.set(id, (lane = { id, kind: "check", label: node, note: e.service?.split("/").at(-1) ?? "kube-proxy", title: `${of} on ${node}, ${port}`, states: [] }));
    lane.states.push({ start: place(e), state: e.to ?? "" });
  }
  return [...lanes.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** planeLanes reads when the API servers answered, a lane for what each was asked; none for what never answered. */
export function planeLanes(plane: ControlPlane | undefined): Lane[] {
  return (plane?.servers ?? []).filter((s) => !s.notMeasured).map((s) => {
    const states = [{ start: s.measured.earliest, state: "answering" }];
    for (const o of s.outages) {
      const errors = (o.classes.http_5xx ?? 0) + (o.classes.http_4xx ?? 0) === o.failed;
      states.push({ start: o.start.latest, state: errors ? "unhealthy" : "no answer" }, { start: o.end.earliest, state: "answering" });
    }
    const what = s.path.replace(/^.*\/([^/]+)\?.*$/, "list of $1");
    const from = s.node ? ` from ${s.node}` : "";
    return { id: s.target, kind: "plane", label: s.addr, note: what, title: `API server ${s.addr}: GET ${s.path}${from}`, states };
  });
}

/** planeNotes say which API servers were not measured, and why. */
export const planeNotes = (plane: ControlPlane | undefined): string[] =>
  [plane?.notAsked ?? "", ...(plane?.servers ?? []).map((s) => s.notMeasured && `${s.addr} ${s.path}: ${s.notMeasured}`)].filter((t) => !!t) as string[];

/** notChecked says why nodes, or some of them, were not asked; empty if all were. */
export const notChecked = (events: Event[]): string => events.find((e) => e.kind === "node-check" && !e.object?.name)?.detail ?? "";

/** podLanes puts each Pod's lane before those of its endpoints. */
export function podLanes(pods: Pod[], events: Event[]): Lane[] {
  const endpoints = endpointLanes(events);
  const exits = exitsOf(events);
  const lanes: Lane[] = [];
  for (const p of pods) {
    const ends = exits.get(p.uid);
    const own = endpoints.get(p.uid) ?? [];
    lanes.push({
      id: p.uid, kind: "pod", label: shortPod(p.name), title: `Pod ${p.namespace}/${p.name}`, ...(p.node && { note: p.node }), came: !!p.created,
      services: own.flatMap((l) => l.services ?? []), namespace: p.namespace, ...(ends && { exits: ends }), states: p.states ?? [],
    });
    lanes.push(...own);
    endpoints.delete(p.uid);
  }
  for (const rest of endpoints.values()) lanes.push(...rest);
  return lanes;
}

/** endpointLanes reads the endpoints' states, by the UID of the Pod behind them (or their address). */
function endpointLanes(events: Event[]): Map<string, Lane[]> {
  const owners = new Map<string, Map<string, Lane>>();
  for (const e of events) {
    if (e.kind !== "endpoint") continue;
    const owner = e.object?.uid || e.addr || "";
    const address = endpointAddress(e);
    let lanes = owners.get(owner);
    if (!lanes) owners.set(owner, (lanes = new Map()));
    let lane = lanes.get(address);
    if (!lane) lanes.set(address, (lane = { id: `${owner} ${address}`, kind: "endpoint", label: address, title: `endpoint ${address} of ${e.object?.name ?? "?"}`, services: [], states: [] }));
    if (e.service && !lane.services!.includes(e.service)) lane.services!.push(e.service);
    lane.states.push({ start: place(e), state: e.to ?? "" });
  }
  return new Map([...owners].map(([owner, lanes]) => [owner, [...lanes.values()]]));
}

function endpointAddress(e: Event): string {
  const host = e.addr?.includes(":") ? `[${e.addr}]` : (e.addr ?? "?");
  return e.port ? `${host}:${e.port}` : host;
}

/** exitsOf are the ends of containers, by the UID of their Pod; whether it was to end tells a crash from the end of its life. */
function exitsOf(events: Event[]): Map<string, Exit[]> {
  const ending = new Set<string>();
  const all = new Map<string, Exit[]>();
  for (const e of events) {
    const uid = e.object?.uid;
    if (!uid) continue;
    if (e.kind === "pod-deleted" || e.kind === "pod-gone" || (e.kind === "endpoint" && e.to?.startsWith("terminating"))) ending.add(uid);
    if (e.kind !== "pod-container" || e.to !== "terminated" || e.at.earliest < -1e15) continue; // one from long before says nothing of this run
    all.set(uid, [...(all.get(uid) ?? []), { at: place(e), code: e.exitCode ?? 0, ending: ending.has(uid) }]);
  }
  return all;
}

const watchedBy: Record<Lane["kind"], string[]> = { node: ["Node"], check: [], plane: [] /* asked, not watched */, pod: ["Pod"], endpoint: ["EndpointSlice", "Endpoints"] };

/** watchGaps are the stretches in which changes of such a lane may have been missed. A gap that names no kind is one of all, and so is one that names no Service. */
export function watchGaps(events: Event[], lane: Pick<Lane, "kind" | "services" | "namespace">): { start: Ns; end: Ns }[] {
  return gapEvents(events)
    .filter((e) => watchedBy[lane.kind].length && (!e.object?.kind || watchedBy[lane.kind].includes(e.object.kind)) && concerns(e.services ?? [], lane))
    .map((e) => ({ start: e.at?.earliest ?? e.seen, end: place(e) }));
}

const gapsIn = new WeakMap<Event[], Event[]>();

/** gapEvents are the watch gaps among events, looked for once. */
function gapEvents(events: Event[]): Event[] {
  let gaps = gapsIn.get(events);
  if (!gaps) gapsIn.set(events, (gaps = events.filter((e) => e.kind === "watch-gap")));
  return gaps;
}

/** concerns tells whether what is said of these Services is about a lane: one of which no Service is known may be of every one in its namespace. */
function concerns(services: string[], { services: own, namespace }: Pick<Lane, "services" | "namespace">): boolean {
  if (!services.length) return true;
  return own?.length ? services.some((s) => own.includes(s)) : !namespace || services.some((s) => s.startsWith(`${namespace}/`));
}

/** changed tells whether a lane came to another state in the run: what was there when it began did not. */
export const changed = ({ states, exits }: Pick<Lane, "states" | "exits">, began: Ns): boolean => states.length > 1 || !!exits?.length || (states[0]?.start ?? 0) > began;

/** lanesByService puts Pods with their endpoints under the first of these Services that they are of, and the others under "". */
export function lanesByService(lanes: Lane[], services: string[]): Map<string, Lane[]> {
  const groups = new Map<string, Lane[]>();
  let group = "";
  for (const lane of lanes) {
    const of = services.length === 1 ? services[0] : lane.services?.find((s) => services.includes(s));
    if (of !== undefined || lane.kind === "pod") group = of ?? "";
    groups.set(group, [...(groups.get(group) ?? []), lane]);
  }
  return groups;
}
