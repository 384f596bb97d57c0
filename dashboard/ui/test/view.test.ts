import assert from "node:assert/strict";
import { test } from "node:test";
import { matching } from "../src/match";
import type { Event } from "../src/model";
import { decode, encode, type View } from "../src/view";

test("a view survives the address", () => {
  for (const view of [
    {},
    { window: 3 },
    { incident: 2, whole: true },
    { range: { from: 10_440_000_001, to: 12_900_000_000 }, window: 1, event: 44, filter: "pod -kube & x=1#2 ü", measure: { from: -50_000_000, to: 7 } },
  ] satisfies View[]) assert.deepEqual(decode(`#${encode(view)}`), view);
  assert.equal(encode({ range: { from: 10_440_000_000, to: 12_900_000_000 } }), "range=10.44..12.9");
});

test("what makes no sense in an address is left out", () => {
  for (const fragment of ["range=5..1", "range=a..b", "range=1..", "window=-1", "window=1e3", "window=<b>", "event=9999999999", "nothing=1", "range=1..1", "%"]) {
    assert.deepEqual(decode(fragment), {}, fragment);
  }
});

const events = [
  { id: 1, kind: "pod-ready", seen: 0, at: { earliest: 0, latest: 0 }, object: { kind: "Pod", name: "web-x2kzq" } },
  { id: 2, kind: "kube-event", seen: 0, at: { earliest: 0, latest: 0 }, object: { kind: "Pod", name: "web-x2kzq" }, detail: "Stopping -web" },
  { id: 3, kind: "node-ready", seen: 0, at: { earliest: 0, latest: 0 }, object: { kind: "Node", name: "b" } },
] as Event[];

test("the filter keeps what holds every word and none of those left out", () => {
  const ids = (filter: string) => matching(events, filter).map((e) => e.id);
  assert.deepEqual(ids(""), [1, 2, 3]);
  assert.deepEqual(ids("READY  pod"), [1]);
  assert.deepEqual(ids("x2kzq -kube"), [1]);
  assert.deepEqual(ids("-"), [1, 2, 3], "a lone minus is a word like any");
  assert.deepEqual(ids("-pod -node"), []);
});
