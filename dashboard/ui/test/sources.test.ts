import assert from "node:assert/strict";
import { test } from "node:test";
import type { Source, Target, Unobserved, Window } from "../src/model";
import { agree, fromWhere, targetGroups } from "../src/sources";

const target = (id: number, name: string, node?: string, kind = "new"): Target => ({ id, name, kind, service: "shop/web", source: `prober-${node}`, ...(node && { node }) }) as Target;
const window = (target: string, from: number, to: number): Window => ({ target, start: { earliest: from, latest: from + 1 }, end: { earliest: to - 1, latest: to } }) as Window;
const sources = [{ name: "prober-node1", zone: "b" }, { name: "prober-node2", zone: "a" }, { name: "prober-node3", zone: "b" }] as Source[];

test("targets that differ in nothing but their node stand together, by zone and node", () => {
  const groups = targetGroups([
    target(1, "web new from node3", "node3"), target(2, "web new from node1", "node1"), target(3, "web new from node2", "node2"), target(4, "web reused from node1", "node1", "reused"),
    target(5, "web new from node1 (prober 2)", "node1"), target(6, "control", "node1", "control"),
  ], sources);
  assert.deepEqual(groups.map((g) => [g.name, g.members.map((m) => m.id)]), [["web new", [3, 2, 5, 1]], ["web reused", [4]]]);
  assert.deepEqual(groups[0]!.members.map((m) => fromWhere(m, sources)), ["node2 · zone a", "node1 · zone b", "node1 (prober 2) · zone b", "node3 · zone b"]);
});

test("a run from one place has groups of one, with their own names", () => {
  const groups = targetGroups([target(1, "web new", "node1"), target(2, "mail from here new", "node1")], []);
  assert.deepEqual(groups.map((g) => [g.name, g.members.length]), [["web new", 1], ["mail from here new", 1]]);
});

test("nodes agree if each of them saw every window, and all were observed", () => {
  const [group] = targetGroups([target(1, "web new from node1", "node1"), target(2, "web new from node2", "node2")], sources);
  const of = (...all: Window[]) => (name: string) => all.filter((w) => w.target === name);
  const [one, two] = ["web new from node1", "web new from node2"];
  assert.ok(agree(group!, of(), []));
  assert.ok(agree(group!, of(window(one, 10, 20), window(two, 15, 30)), []));
  assert.ok(!agree(group!, of(window(one, 10, 20)), []), "one of them saw nothing");
  assert.ok(!agree(group!, of(window(one, 10, 20), window(two, 25, 30)), []), "they saw it at different times");
  assert.ok(!agree(group!, of(), [{ target: two, start: 1, end: 2 } as Unobserved]), "one of them did not look");
});
