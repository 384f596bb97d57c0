import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimelineFile } from "../src/model";
import { whole } from "../src/embedded";
import { Run } from "../src/run";

const delta = { protocol: 1, epoch: "e", seq: 1 };

test("a delta replaces whole values, and deletes", () => {
  const run = new Run();
  run.apply({ ...delta, put: { "event/1": { id: 1, seen: 20 }, "event/2": { id: 2, seen: 10 } } });
  assert.deepEqual(run.events.map((e) => e.id), [2, 1]);
  const before = run.events;
  run.apply({ ...delta, put: { live: true } });
  assert.equal(run.events, before, "a list stays the same array while none of its values changes");
  run.apply({ ...delta, put: { "event/2": { id: 2, seen: 30 } }, delete: ["event/1", "event/9"] });
  assert.deepEqual(run.events.map((e) => e.seen), [30]);
  run.apply({ ...delta, reset: true });
  assert.equal(run.events.length, 0);
});

test("applying a delta twice is applying it once", () => {
  const [once, twice] = [new Run(), new Run()];
  const d = { ...delta, put: { "bucket/web new/0": { start: 0, sent: [1, 2], failed: [0, 1] }, "bucket/web new/1": { start: 2, sent: [3], failed: [0] } } };
  once.apply(d);
  twice.apply(d);
  twice.apply(d);
  assert.deepEqual(once.series("web new"), twice.series("web new"));
  assert.deepEqual(once.series("web new").sent, [1, 2, 3]);
});

test("names from the cluster are only names", () => {
  const run = new Run();
  run.apply({ ...delta, put: { "bucket/__proto__/0": { start: 0, sent: [1], failed: [1], classes: JSON.parse('{"__proto__": [0, 1]}') }, "pod/constructor": { uid: "constructor", name: "toString", states: [] } } });
  assert.deepEqual(Object.keys(run.series("__proto__").classes.get(0)!), ["__proto__"]);
  assert.equal(run.pods[0]!.name, "toString");
  assert.equal(({} as Record<string, unknown>)["0"], undefined);
});

test("a series puts chunks in order whatever order they come in", () => {
  const run = new Run();
  run.apply({ ...delta, put: { "bucket/a/1": { start: 2, sent: [7], failed: [1], classes: { refused: [2, 1] }, latency: [[8, 6]] } } });
  run.apply({ ...delta, put: { "bucket/a/0": { start: 0, sent: [5, 6], failed: [0, 0], latency: [[3, 5], [4, 6]] } } });
  const s = run.series("a");
  assert.deepEqual(s.sent, [5, 6, 7]);
  assert.deepEqual(s.latency, [[3, 5], [4, 6], [8, 6]]);
  assert.deepEqual(s.classes.get(2), Object.assign(Object.create(null), { refused: 1 }));
});

test("a saved timeline gives the same state as the stream's entries", () => {
  const file = {
    tool: { name: "lapse", version: "1" }, t0: "2026-03-14T02:20:38.412907113Z", run: { id: "r", duration: 3e9 }, verdict: {}, unobserved: null,
    targets: [{ name: "web new", kind: "new", id: 1 }], windows: [{ id: 1, start: { earliest: 1, latest: 2 } }], events: [{ id: 7, seen: 3 }], pods: null,
    buckets: { width: 1e8, targets: { "web new": { sent: [1], failed: [0], latency: [[1, 1]], unobserved: [0] } } },
  } as unknown as TimelineFile;
  const run = new Run();
  run.apply(whole(file));
  assert.equal(run.live, false);
  assert.equal(run.now, 3e9);
  assert.equal(run.windows[0]!.id, 1);
  assert.equal(run.event(7)!.seen, 3);
  assert.deepEqual(run.series("web new").sent, [1]);
  assert.equal(run.t0, Date.parse("2026-03-14T02:20:38Z") + 412.907113);
});

test("the head of a large state is partial until the rest has come", () => {
  const run = new Run();
  run.apply({ ...delta, reset: true, more: true, put: { t0: "2026-01-01T00:00:00Z" } });
  run.apply({ ...delta, head: true, more: true, put: { live: true } });
  assert.equal(run.partial, true);
  run.apply({ ...delta, more: true, put: { "event/1": { id: 1, seen: 1 } } });
  assert.equal(run.partial, true);
  run.apply({ ...delta, put: { "event/2": { id: 2, seen: 2 } } });
  assert.equal(run.partial, false);
  run.apply({ ...delta, more: true, put: { "event/3": { id: 3, seen: 3 } } });
  assert.equal(run.partial, false, "many changes at once are not a state that is still to come");
});

test("a request for details that failed is remembered until one succeeds", () => {
  const run = new Run();
  run.apply({ ...delta, put: { counts: { judged: 1 }, bucketWidth: 5 } });
  run.want("evidence");
  run.failDetails("the server answered 503", 1000);
  run.failDetails("no answer in 12 s", 2000);
  assert.deepEqual(run.failed, { since: 1000, why: "no answer in 12 s" });
  assert.deepEqual(run.due(2000, 1000), ["evidence"], "it is asked for again");
  run.details(["evidence"], { bucketWidth: 5 }, 3000);
  assert.equal(run.failed, undefined);
});
