import assert from "node:assert/strict";
import { test } from "node:test";
import cases from "../../publish/testdata/groups.json";
import type { Series, Source, Target, Unobserved, Window } from "../src/model";
import { agree, byService, fromWhere, targetGroups } from "../src/sources";
import { together } from "../src/slots";

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

/** A line of the table that the page and the server (publish/groups_test.go) are both held to: of few targets the page makes the groups, of many the server. */
interface GroupCase {
  name: string;
  sources?: Source[];
  targets?: Partial<Target>[];
  windows?: Window[];
  unobserved?: Unobserved[];
  series?: { start?: number; sent: number[]; failed: number[]; unobserved: number[]; classes: Record<string, number[]> }[];
  groups?: (Record<string, unknown> & { members: number[] })[];
  together?: { share: number[]; gap: boolean[]; classes: Record<string, Record<string, number>> };
}

const sums = ["rate", "achievedRate", "sent", "failed", "notSent", "late"] as const;

for (const c of cases as unknown as GroupCase[]) {
  test(`groups are those of the server: ${c.name}`, () => {
    const targets = (c.targets ?? []).map((t) => ({ rate: 0, achievedRate: 0, sent: 0, failed: 0, notSent: 0, late: 0, ...t }) as Target);
    const windowsOf = (name: string) => (c.windows ?? []).filter((w) => w.target === name);
    const made = targetGroups(targets, c.sources ?? []).map((g) => ({
      name: g.name, kind: g.kind, members: g.members.map((m) => m.id), ...Object.fromEntries(sums.map((s) => [s, g[s]])), coverage: g.coverage, agree: agree(g, windowsOf, c.unobserved ?? []),
    }));
    assert.deepEqual(made, (c.groups ?? []).map((g) => ({ name: g.name, kind: g.kind, members: g.members, ...Object.fromEntries(sums.map((s) => [s, g[s] ?? 0])), coverage: g.coverage, agree: g.agree })));
    if (c.together) assert.deepEqual(inOneRow(c.series ?? []), c.together);
  });
}

/** inOneRow is what the page makes of several series, as the server writes it. */
function inOneRow(all: NonNullable<GroupCase["series"]>): GroupCase["together"] {
  const { share, gap, classes } = together(all.map(({ start = 0, sent, failed, unobserved, classes }): Series => {
    const series: Series = { sent: pad(start, sent), failed: pad(start, failed), unobserved: pad(start, unobserved), latency: [], classes: new Map() };
    for (const [name, pairs] of Object.entries(classes)) {
      for (let i = 0; i < pairs.length; i += 2) series.classes.set(pairs[i]!, { ...series.classes.get(pairs[i]!), [name]: pairs[i + 1]! });
    }
    return series;
  }));
  const bySlot = [...classes].map(([slot, counts]) => [String(slot), Object.fromEntries(counts)]);
  return { share: share.map((s) => (s === undefined ? -1 : Math.ceil(s * 1e4) / 1e4)), gap, classes: Object.fromEntries(bySlot) as Record<string, Record<string, number>> };
}

const pad = (start: number, of: number[]): number[] => [...new Array<number>(start).fill(0), ...of];

test("rows of a Service stand together, and what is of none comes last", () => {
  const all = [{ n: 1, service: "shop/web" }, { n: 2, service: "shop/cart" }, { n: 3 }, { n: 4, service: "shop/web" }];
  assert.deepEqual(byService(all, ["shop/cart", "shop/web"]).map((t) => t.n), [2, 1, 4, 3]);
  assert.equal(byService(all, ["shop/web"]), all);
});
