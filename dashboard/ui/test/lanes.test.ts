import assert from "node:assert/strict";
import { test } from "node:test";
import { podLanes, watchGaps } from "../src/lanes";
import type { Event } from "../src/model";

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
  assert.deepEqual(watchGaps(gaps, "pod"), [{ start: 5, end: 20 }, { start: 25, end: 30 }]);
  assert.deepEqual(watchGaps(gaps, "node"), [{ start: 5, end: 20 }]);
});
