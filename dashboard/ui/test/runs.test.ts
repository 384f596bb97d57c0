import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, answer, chosen, comparedFrom, type Day, dayText, earlier, filterOf, type GuardNow, hashOf, type Listed, newestFirst, short, ticked, whatToDo } from "../src/runs";

const now = Date.parse("2026-11-26T08:00:00Z");
const at = (hours: number) => new Date(now - hours * 3600_000).toISOString();
const run = (name: string, hours: number, more: Partial<Listed> = {}): Listed => ({ name, services: ["shop/web"], began: at(hours), word: "PASS", result: "pass", outcome: "passed", failed: 0, sent: 800, ...more });
const dropped = (name: string, hours: number, failed: number, more: Partial<Listed> = {}) => run(name, hours, { outcome: "dropped", result: "fail", word: "FAIL", failed, ...more });
const day = (more: Partial<Day> = {}): Day => ({ date: "2026-11-25", outcome: "nothing", runs: 0, observed: 1, ...more });
const guard = (more: Partial<GuardNow> = {}): GuardNow => ({ at: at(0), speaks: "this", services: [{ name: "shop/web", state: "idle", since: at(9) }], ...more });
const observed = [{ service: "shop/web", days: [day(), day({ date: "2026-11-26" })] }];

test("the answer is about the last 24 hours, and names the worst run of each Service", () => {
  const said = answer([dropped("a", 1, 4), dropped("b", 5, 129), dropped("c", 6, 7, { services: ["shop/api"] }), dropped("old", 25, 999), run("d", 2)], observed, guard(), now);
  assert.equal(said.style, "fail");
  assert.equal(said.headline, "Requests were dropped in 3 of 4\u00a0runs");
  assert.deepEqual(said.worst.map((w) => [w.run.name, w.others]), [["b", 1], ["c", 0]]);
});

test("an outage of hours counts until it ended", () => {
  const outage = dropped("outage", 34, 9, { ended: at(22) });
  assert.equal(answer([outage, run("a", 1)], observed, guard(), now).word, "✗ DROPPED");
  assert.equal(answer([{ ...outage, ended: at(24) }, run("a", 1)], observed, guard(), now).word, "✓ NONE DROPPED");
  const days = (r: Listed) => ["24", "25", "26"].filter((d) => chosen([r], { day: `2026-11-${d}` }).length).join(" ");
  assert.equal(days(outage), "24 25");
  assert.equal(days({ ...outage, ended: "2026-11-25T00:00:00Z" }), "24");
  assert.equal(days({ ...outage, ended: outage.began! }), "24");
  assert.equal(days(dropped("old", 9, 1)), "25");
});

test("no answer is a pass that was not measured", () => {
  const style = (runs: Listed[], days = observed, g: GuardNow | undefined = guard()) => answer(runs, days, g, now).word;
  assert.equal(style([run("a", 1)]), "✓ NONE DROPPED");
  assert.equal(style([]), "✓ NOTHING HAPPENED");
  assert.equal(style([run("a", 1), run("b", 2, { outcome: "unmeasured" })]), "? NOT ALL MEASURED");
  const { outcome: _, ...unjudged } = run("b", 2);
  assert.equal(style([unjudged]), "? NOT ALL MEASURED");
  assert.equal(style([run("a", 1)], [{ service: "shop/web", days: [day({ observed: 0.5 }), day()] }]), "? NOT ALL MEASURED");
  assert.equal(style([], observed, guard({ services: [{ name: "shop/web", state: "not measured", since: at(0) }] })), "? NOT ALL MEASURED");
  assert.equal(style([], observed, guard({ services: [{ name: "shop/web", state: "recording", since: at(0), run: "x", sent: 90, failed: 0 }] })), "● MEASURING");
  assert.equal(style([], [], guard({ services: [] })), "? NOTHING MEASURED");
  assert.equal(answer([], [], guard(), now).headline, "No request is known to have been dropped, but not observed yet: shop/web");
  assert.equal(style([], []), "? NOT ALL MEASURED");
  assert.equal(style([run("a", 1, { outcome: "gateFailed" })]), "✗ FAILED");
  assert.equal(style([run("a", 1)], observed, guard({ services: [{ name: "shop/web", state: "recording", since: at(0), run: "x", sent: 90, failed: 2 }] })), "✗ DROPS NOW");
  assert.equal(answer([], [], undefined, now).word, "? NOTHING MEASURED");
});

test("what was before a Service was first observed is not missing; what was after is", () => {
  const since = "2026-11-26T03:12:40Z";
  const first = (more: Partial<Day>, service = "shop/web") => ({ service, days: [day({ observed: 0, outcome: "unmeasured" }), day({ date: "2026-11-26", since, ...more })] });
  const said = answer([], [first({})], guard(), now);
  assert.equal(said.word, "✓ NOTHING HAPPENED");
  assert.equal(said.over, "in the last 24 hours; measured since 2026-11-26 03:12 UTC: shop/web");
  assert.equal(answer([], [first({ observed: 0.8, outcome: "unmeasured" })], guard(), now).word, "? NOT ALL MEASURED");
  const two = guard({ services: [{ name: "shop/web", state: "idle", since: at(9) }, { name: "shop/api", state: "idle", since: at(1) }] });
  assert.equal(answer([], [first({ since: at(1) }, "shop/api"), first({})], two, now).over, "in the last 24 hours; measured since 2026-11-26 03:12 UTC or later: shop/api, shop/web");
  const yesterday = [{ service: "shop/web", days: [day({ since: at(30) }), day({ date: "2026-11-26" })] }];
  assert.equal(answer([], yesterday, guard(), now).over, "in the last 24 hours");
});

test("without a guard the answer is about the day before the newest run", () => {
  const said = answer([dropped("a", 1000, 4), run("b", 990), dropped("c", 1020, 9)], [], undefined, now);
  assert.equal(said.headline, "Requests were dropped in 1 of 2\u00a0runs");
  assert.match(said.over, /^in the 24 hours until 2026-10-16 02:00:00 UTC$/);
});

test("a day says what its runs showed, and how much of it was observed", () => {
  const text = (more: Partial<Day>, guarded = true) => dayText(day(more), guarded).replaceAll("\u00a0", " ");
  assert.equal(text({}), "2026-11-25: nothing happened");
  assert.equal(text({ observed: 0 }), "2026-11-25: no guard observed it");
  assert.equal(text({ observed: 0 }, false), "2026-11-25: no run");
  assert.equal(text({ runs: 5, dropped: 2, unmeasured: 1, failed: 149, sent: 12000, observed: 0.52 }), "2026-11-25: 2 of 5 runs dropped requests (149 of 12000), 1 run not measured, 2 runs passed, a guard observed 52 % of it");
  assert.equal(text({ since: "2026-11-25T09:12:40Z" }), "2026-11-25: nothing happened, measured since 09:12");
  assert.equal(text({ since: "2026-11-25T09:12:40Z", observed: 0.6 }), "2026-11-25: a guard observed 60 % of the time since 09:12");
  assert.equal(text({ runs: 1, gateFailed: 1 }), "2026-11-25: a gate failed in 1 run");
});

test("a filter is the address's fragment", () => {
  const filter = { service: "shop/web", outcome: "dropped", day: "2026-11-25" } as const;
  assert.deepEqual(filterOf(hashOf(filter)), filter);
  assert.deepEqual(filterOf("#outcome=%3Cscript%3E&range=1..2"), {});
  const runs = [run("a", 1), dropped("b", 9, 1), dropped("c", 9, 1, { services: ["shop/api", "shop/web"] }), { name: "d", word: "not judged", failed: 0, sent: 0 }];
  const names = (f: Parameters<typeof chosen>[1]) => chosen(runs, f).map((r) => r.name).join("");
  assert.equal(names({}), "abcd");
  assert.equal(names({ service: "shop/api" }), "c");
  assert.equal(names({ outcome: "dropped", day: "2026-11-25" }), "bc");
  assert.equal(names({ outcome: "unmeasured" }), "d");
});

test("a run that is gone counts, says what to do, and is compared with none", () => {
  const left = dropped("b", 5, 129, { gone: true, cause: "node-lost" });
  const runs = newestFirst([run("a", 1), left]);
  assert.deepEqual(answer(runs, observed, guard(), now).worst.map((w) => w.run.name), ["b"]);
  assert.equal(whatToDo(left), "what the guide says: lapse explain node-lost");
  assert.equal(whatToDo({ ...left, fix: "keep serving" }), "keep serving");
  assert.equal(whatToDo(run("c", 1, { cause: "node-lost" })), "");
  assert.equal(earlier(runs).size, 0);
});

test("what two guards measured counts once, and the page of either shows it", () => {
  const [gone, here] = [dropped("gone", 2, 23, { gone: true }), dropped("here", 2, 20, { again: "gone" })];
  const runs = newestFirst([run("a", 3), here, gone, dropped("c", 4, 5)]);
  const said = answer(runs, observed, guard(), now);
  assert.equal(said.headline, "Requests were dropped in 2 of 3\u00a0runs");
  assert.deepEqual(said.worst.map((w) => [w.run.name, w.page?.name, w.others]), [["gone", "here", 1]]);
  assert.deepEqual(answer([gone], observed, guard(), now).worst.map((w) => w.page), [undefined]);
  assert.equal(answer(newestFirst([run("a", 1), run("b", 1, { outcome: "unmeasured", again: "a" })]), observed, guard(), now).word, "✓ NONE DROPPED");
  const [b, a, again] = [run("b", 1), run("a", 3), run("again", 2, { again: "a" })];
  assert.deepEqual([...earlier([b, again, a])], [[b, a]]);
});

test("two ticked runs are compared, the older one first", () => {
  assert.deepEqual(ticked(ticked(ticked([], "a"), "b"), "c"), ["b", "c"]);
  assert.deepEqual(ticked(["a", "b"], "a"), ["b"]);
  const runs = newestFirst([run("a", 3), run("b", 1), run("x", 2, { services: ["shop/api"] }), run("c,d", 4)]);
  assert.equal(comparedFrom(runs, ["b", "a"]), "?compare=a%2Cb");
  assert.equal(comparedFrom(runs, ["b"]), "");
  assert.equal(earlier(runs).get(runs[0]!)?.name, "a");
  assert.equal(earlier(runs).get(runs[1]!), undefined); // the first of its Service
  assert.equal(earlier(runs).get(runs[2]!), undefined); // a comma would part the names
});

test("how long ago is as exact as it matters", () => {
  assert.deepEqual([0.005, 0.5, 7, 100].map((h) => ago(at(h), now).replace("\u00a0", " ")), ["18 s", "30 min", "7 h", "4 days"]);
});

test("a release is short", () => {
  assert.equal(short("sha256:0123456789abcdef0123"), "0123456789ab");
  assert.equal(short("54cf597767"), "54cf597767");
  assert.equal(short("not on record"), "not on record");
});
