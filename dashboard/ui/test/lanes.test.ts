import assert from "node:assert/strict";
import { test } from "node:test";
import { changed, checkLanes, lanesByService, nodeLanes, notChecked, planeLanes, planeNotes, podLanes, watchGaps } from "../src/lanes";
import type { APIServer, Event } from "../src/model";

let id = 0;
const event = (seen: number, e: Partial<Event>): Event => ({ id: ++id, seen, at: { earliest: seen, latest: seen }, kind: "run", ...e });

test("a container that exits shows in its Pod's lane, though the Pod was ready again at once", () => {
  const object = { kind: "Pod", uid: "a", name: "web-a" };
  const [lane] = podLanes([{ namespace: "shop", name: "web-a", uid: "a", states: [{ start: 0, state: "ready" }] }], [
    event(7e9, { kind: "pod-container", from: "running", to: "terminated", exitCode: 137, object }),
    event(7e9, { kind: "pod-container", from: "terminated", to: "running", count: 1, object }),
  ]);
  assert.deepEqual(lane?.exits, [{ at: 7e9, code: 137, ending: false }]);
});

test("a gap that names no kind is one of every lane", () => {
  const gaps = [event(20, { kind: "watch-gap", at: { earliest: 5, latest: 20 } }), event(30, { kind: "watch-gap", at: { earliest: 25, latest: 30 }, object: { kind: "Pod" } })];
  assert.deepEqual(watchGaps(gaps, { kind: "pod" }), [{ start: 5, end: 20 }, { start: 25, end: 30 }]);
  assert.deepEqual(watchGaps(gaps, { kind: "node" }), [{ start: 5, end: 20 }]);
});

test("a gap that names Services is one of their lanes only", () => {
  const pod = (uid: string, namespace = "shop") => ({ namespace, name: uid, uid, states: [{ start: 0, state: "ready" as const }] });
  const endpoint = (uid: string, service: string) => event(1, { kind: "endpoint", to: "ready", service, addr: "10.0.0.1", object: { kind: "Pod", uid } });
  const gap = (kind: string) => event(20, { kind: "watch-gap", at: { earliest: 5, latest: 20 }, object: { kind }, services: ["shop/web"] });
  const lanes = podLanes([pod("web"), pod("api"), pod("both"), pod("young"), pod("other", "payments")],
    [endpoint("web", "shop/web"), endpoint("api", "shop/api"), endpoint("both", "shop/api"), endpoint("both", "shop/web")]);
  const hit = (kind: string) => lanes.filter((l) => watchGaps([gap(kind)], l).length).map((l) => `${l.kind} ${l.id.split(" ")[0]}`);
  assert.deepEqual(hit("Pod"), ["pod web", "pod both", "pod young"]);
  assert.deepEqual(hit("EndpointSlice"), ["endpoint web", "endpoint both"]);
});

test("each health check of a node has a lane, and says whose it is", () => {
  const object = { kind: "Node", name: "node2" };
  const check = (seen: number, to: string, e: Partial<Event> = {}) => event(seen, { kind: "node-check", to, object, addr: "10.0.0.2", port: 10256, ...e });
  const events = [check(1, "healthy"), check(2, "healthy", { port: 31000, service: "shop/web" }), check(9, "unhealthy", { from: "healthy", port: 31000, service: "shop/web" }), event(0, { kind: "node-check", to: "not-asked", detail: "nodes/get is not allowed" })];
  const lanes = checkLanes(events);
  assert.deepEqual(lanes.map((l) => [l.title, l.states.map((s) => [s.start, s.state])]), [
    ["kube-proxy's own health check on node2, 10.0.0.2:10256", [[1, "healthy"]]],
    ["the health-check node port of shop/web on node2, 10.0.0.2:31000", [[2, "healthy"], [9, "unhealthy"]]],
  ]);
  assert.deepEqual(watchGaps([event(20, { kind: "watch-gap" })], lanes[0]!), [], "it is asked and not watched");
  assert.deepEqual(nodeLanes(events), [], "how the node stands is not known");
  assert.equal(notChecked(events), "nodes/get is not allowed");
  assert.equal(notChecked(events.slice(0, 3)), "");
});

test("each API server has a lane for what it was asked, and what was never answered has none", () => {
  const out = (from: number, to: number, classes: Record<string, number>) => ({
    kind: "outage" as const, basis: "exact" as const, start: { earliest: from - 1, latest: from }, end: { earliest: to, latest: to + 1 },
    length: { min: to - from, max: to - from + 2 }, sent: 9, failed: 9, classes, open: { start: false, end: false },
  });
  const server = (path: string, e: Partial<APIServer>): APIServer =>
    ({ addr: "10.0.0.1:6443", path, target: path, measured: { earliest: 1, latest: 50 }, outages: [], ...e });
  const plane = { servers: [
    server("/livez", { node: "node1", outages: [out(10, 20, { timeout_response: 9 }), out(30, 40, { http_5xx: 9 })] }),
    server("/api/v1/namespaces/shop/services?limit=1", {}),
    server("/readyz", { notMeasured: "no request was answered (refused)" }),
  ] };
  assert.deepEqual(planeLanes(plane).map((l) => [l.title, l.note, l.states.map((s) => [s.start, s.state])]), [
    ["API server 10.0.0.1:6443: GET /livez from node1", "/livez", [[1, "answering"], [10, "no answer"], [20, "answering"], [30, "unhealthy"], [40, "answering"]]],
    ["API server 10.0.0.1:6443: GET /api/v1/namespaces/shop/services?limit=1", "list of services", [[1, "answering"]]],
  ]);
  assert.deepEqual(planeNotes({ ...plane, notAsked: "no right" }), ["no right", "10.0.0.1:6443 /readyz: no request was answered (refused)"]);
  assert.deepEqual([...planeLanes(undefined), ...planeNotes(undefined)], []);
  assert.deepEqual(watchGaps([event(20, { kind: "watch-gap" })], planeLanes(plane)[0]!), [], "it is asked and not watched");
});

test("a lane that is as it was when the run began did not change", () => {
  const lane = (...starts: number[]) => ({ states: starts.map((start) => ({ start, state: "ready" })) });
  assert.deepEqual([lane(0.4e9), lane(0.4e9, 6e9), lane(7e9), { ...lane(0), exits: [{ at: 1, code: 1, ending: false }] }].map((l) => changed(l, 5e9)), [false, true, true, true]);
});

test("Pods stand with their endpoints under their Service", () => {
  const lane = (kind: "pod" | "endpoint", id: string, services: string[]) => ({ kind, id, services, label: id, title: id, states: [] });
  const lanes = [lane("pod", "a", ["shop/web"]), lane("endpoint", "a1", ["shop/web"]), lane("pod", "b", ["shop/api"]), lane("pod", "c", [])];
  const ids = (services: string[]) => [...lanesByService(lanes, services)].map(([name, of]) => [name, of.map((l) => l.id).join()]);
  assert.deepEqual(ids(["shop/web", "shop/api"]), [["shop/web", "a,a1"], ["shop/api", "b"], ["", "c"]]);
  assert.deepEqual(ids(["shop/web"]), [["shop/web", "a,a1,b,c"]], "of a run of one Service all are its own");
});
