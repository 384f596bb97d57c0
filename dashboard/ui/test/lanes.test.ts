import assert from "node:assert/strict";
import { test } from "node:test";
import { podLanes, readyCounts, watchGaps } from "../src/lanes";
import type { Event } from "../src/model";

let id = 0;
const event = (seen: number, e: Partial<Event>): Event => ({ id: ++id, seen, at: { earliest: seen, latest: seen }, kind: "endpoint", ...e });
const endpoint = (seen: number, service: string, uid: string, addr: string, port: number, to: string): Event => event(seen, { service, addr, port, to, object: { kind: "Pod", uid, name: uid } });

test("a Pod is one ready endpoint, whatever addresses and ports it has, and each Service has its own count", () => {
  const counts = readyCounts([
    endpoint(0, "shop/web", "a", "10.0.0.1", 8080, "ready"), endpoint(0, "shop/web", "a", "10.0.0.1", 9090, "ready"), endpoint(0, "shop/web", "a", "fd00::1", 8080, "ready"),
    endpoint(0, "shop/web", "b", "10.0.0.2", 8080, "ready"), endpoint(0, "shop/api", "c", "10.0.0.3", 80, "ready"),
    endpoint(5e9, "shop/web", "b", "10.0.0.2", 8080, "terminating"),
  ]);
  assert.deepEqual(counts, [
    { service: "shop/web", steps: [{ start: 0, ready: 2 }, { start: 5e9, ready: 1 }] },
    { service: "shop/api", steps: [{ start: 0, ready: 1 }] },
  ]);
});

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
  assert.deepEqual(watchGaps(gaps, "pod"), [{ start: 5, end: 20 }, { start: 25, end: 30 }]);
  assert.deepEqual(watchGaps(gaps, "node"), [{ start: 5, end: 20 }]);
});
