import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route, Target, Unobserved } from "../src/model";
import { dots, lagText, lostText, matrix, moment, nameAt, reach, shortNames, unobservedAt, waitedText, ticksBetween } from "../src/routes";

const ms = 1e6;

function route(node: string, event: number, lag: number, more: Partial<Route> = {}): Route {
  const api = { earliest: event * 1000 * ms, latest: (event * 1000 + 20) * ms };
  return {
    change: "removal", service: "shop/web", pod: `web-${event}`, podUID: `u${event}`, node, target: `web new from ${node}`, event, api,
    changed: { earliest: api.latest + (lag - 10) * ms, latest: api.earliest + (lag + 10) * ms }, lag: { min: (lag - 10) * ms, max: (lag + 10) * ms }, ...more,
  };
}

test("a row for each change, in their order, and a column for each node", () => {
  const m = matrix([route("node2", 7, 100), route("node1", 5, 200), route("node2", 5, 300)]);
  assert.deepEqual(m.nodes, ["node1", "node2"]);
  assert.deepEqual(m.rows.map((r) => [r.event, r.pod, r.cells.map((c) => c && lagText(c))]), [
    [5, "web-5", ["200 ms ±10", "300 ms ±10"].map(noBreak)],
    [7, "web-7", [undefined, noBreak("100 ms ±10")]],
  ]);
});

test("of two targets of a node the one that followed last counts", () => {
  const [slow, quick] = [route("node1", 5, 900), route("node1", 5, 100)];
  assert.equal(matrix([slow, quick]).rows[0]!.cells[0], slow);
  assert.equal(matrix([quick, slow]).rows[0]!.cells[0], slow);
});

test("an open lag is a lower bound", () => {
  assert.equal(lagText(route("n", 1, 500, { open: true })), noBreak("≥ 490 ms"));
});

test("a dot stands at a node's lag, the quickest first, and the change's Pod stopped so long before it", () => {
  const lost = { min: 290 * ms, max: 310 * ms } as Route["lost"];
  const [row] = matrix([route("node2", 5, 300), route("node1", 5, 100, { lost })]).rows;
  const all = dots(row!);
  assert.deepEqual(all.map((d) => [d.route.node, d.from / ms, d.at / ms, d.to / ms, d.stopped && d.stopped / ms]), [["node1", 90, 100, 110, -200], ["node2", 290, 300, 310, undefined]]);
  assert.deepEqual(reach(all), { from: -200 * ms, to: 310 * ms });
  assert.deepEqual(reach([]), { from: 0, to: 1 * ms });
});

test("a cell's moment begins when the deletion was asked for, where that is known", () => {
  const r = route("n", 1, 500);
  assert.deepEqual(moment(r), { earliest: r.api.earliest, latest: r.changed.latest });
  assert.equal(moment({ ...r, asked: { earliest: 5, latest: 6 } }).earliest, 5);
});

test("time that was not measured from a node is no answer of it", () => {
  const targets = [{ name: "web new from n", kind: "new", node: "n", measured: { earliest: 10, latest: 100 } }, { name: "web reused from n", kind: "reused", node: "n", measured: { earliest: 0, latest: 0 } }] as Target[];
  const unobserved = [{ target: "web new from n", start: 40, end: 50 }, { target: "other", start: 0, end: 100 }] as Unobserved[];
  assert.deepEqual([5, 20, 45, 60, 101].map((at) => unobservedAt("n", at, targets, unobserved)), [true, false, true, false, true]);
  assert.equal(unobservedAt("elsewhere", 45, targets, unobserved), false);
});

const noBreak = (text: string): string => text.replace(/(\d) (ms|s)/g, "$1\u00a0$2");

test("what a node waited for is said where it routed to a Pod that had stopped", () => {
  const of = (min: number, max: number) => ({ min: min * ms, max: max * ms });
  const lost = { ...of(300, 320), appEarly: of(0, 0), controller: of(0, 10), proxy: of(290, 320) };
  assert.equal(lostText(route("node1", 5, 200)), "");
  assert.equal(lostText(route("node1", 5, 200, { lost: { ...lost, min: 0 } })), "");
  const text = "it routed to web-5 for 310 ms ±10 after that had stopped: ≤ 10 ms until the EndpointSlice changed, 305 ms ±15 until the node's own routes followed";
  assert.equal(lostText(route("node1", 5, 200, { lost })).replaceAll("\u00a0", " "), text);
});

test("an addition says what a node waited for after the Pod's first container had started", () => {
  const of = (min: number, max: number) => ({ min: min * 1e6, max: max * 1e6 });
  const waited = { ...of(8300, 8300), startUp: of(8000, 8000), controller: of(0, 0), proxy: of(300, 300) };
  const text = waitedText(route("node1", 5, 200, { change: "addition", waited })).replaceAll("\u00a0", " ");
  assert.match(text, /8\.3 s after its first container had started: 8 s until it was ready, 300 ms until the node's own routes followed$/);
  assert.equal(waitedText(route("node1", 5, 200)), "");
});

test("a name stands beside its dot, where there is room, and without its domain where that tells no nodes apart", () => {
  assert.deepEqual([...shortNames(["ip-1.eu.internal", "ip-2.eu.internal", "10.0.0.1"]).values()], ["ip-1", "ip-2", "10.0.0.1"]);
  assert.deepEqual([...shortNames(["a.east", "a.west"]).values()], ["a.east", "a.west"]);
  assert.deepEqual(nameAt("node1", 10, 20, 300), { x: 28, anchor: "start" });
  assert.deepEqual(nameAt("node1", 270, 290, 300), { x: 262, anchor: "end" });
  assert.equal(nameAt("node1", 270, 290, 300, 250), undefined);
});

test("the axis of the dot plot has round lengths", () => {
  assert.deepEqual(ticksBetween(-82e6, 374e6, 7), [0, 100e6, 200e6, 300e6]);
  assert.deepEqual(ticksBetween(0, 900e6, 3), [0, 500e6]);
});
