import assert from "node:assert/strict";
import { test } from "node:test";
import { above, extent, histogram, quantile, slotOf } from "../src/latency";
import type { Series, Window } from "../src/model";
import { Scale } from "../src/scale";
import { failuresBefore, classesOf, failing, groups, together, unknown, worst, worstOfAll } from "../src/slots";

const series = (sent: number[], failed: number[], more: Partial<Series> = {}): Series => ({ sent, failed, unobserved: [], latency: [], classes: new Map(), ...more });

test("groups cover every slot in view once, and are never narrower than asked for", () => {
  for (const [width, pixels] of [[1000, 1], [50, 1], [50, 4]] as const) {
    const scale = new Scale({ from: 3e9, to: 43e9 }, width);
    let next = -1;
    groups(scale, 1e8, 0, 40e9, (first, count) => {
      if (next >= 0) assert.equal(first, next);
      assert.ok(first % count === 0, "groups stand still while panning");
      assert.ok(width === 1000 || scale.x(count * 1e8) - scale.x(0) >= pixels - 1e-9);
      next = first + count;
    }, pixels);
    assert.ok(next >= 400);
  }
});

test("the worst slot of a group counts, and what was not measured is not healthy", () => {
  const s = series([10, 0, 10, 4], [0, 0, 1, 2]);
  assert.equal(worst(s, 0, 4), 0.5);
  assert.equal(worst(s, 0, 1), 0);
  assert.equal(worst(s, 1, 1), undefined);
  assert.equal(worst(s, 9, 3), undefined);
  assert.equal(worstOfAll(together([s, series([0], [0])]), 1, 1), undefined);
  assert.equal(worstOfAll(together([s, series([5, 5], [0, 5])]), 1, 1), 1);
  assert.deepEqual(together([s, series([5, 5], [0, 0], { unobserved: [0, 1] })]).gap, [false, true, false, false]);
});

test("failures add up by class, and those of unknown class are counted as such", () => {
  const a = series([9, 9], [3, 2], { classes: new Map([[0, { refused: 2, eof: 1 }]]) });
  const b = series([9, 9], [1, 0], { classes: new Map([[0, { refused: 1 }]]) });
  assert.deepEqual(classesOf(together([a, b]), 0, 2), new Map([["refused", 3], ["eof", 1], [unknown, 2]]));
  assert.deepEqual(classesOf(together([a, b]), 5, 2), new Map());
});

test("a slot's failures are drawn where windows reach into it", () => {
  const w = (from: number, to: number, kind = "outage") => ({ kind, start: { earliest: from - 5, latest: from }, end: { earliest: to, latest: to + 5 } }) as Window;
  assert.deepEqual(failing([w(180, 900)], 100, 200, 0.2), [{ from: 180, to: 200, share: 1 }]);
  assert.deepEqual(failing([w(50, 900)], 100, 200, 0.2), [{ from: 100, to: 200, share: 0.2 }]);
  assert.deepEqual(failing([w(110, 120), w(150, 160)], 100, 200, 0.1), [{ from: 110, to: 120, share: 0.5 }, { from: 150, to: 160, share: 0.5 }]);
  assert.deepEqual(failing([w(150, 140)], 100, 200, 0.01), [{ from: 150, to: 150, share: 1 }], "a single failure has no length");
  assert.deepEqual(failing([w(300, 400), w(100, 200, "slow")], 100, 200, 0.3), [{ from: 100, to: 200, share: 0.3 }], "where no window tells, it may be anywhere");
});

// The bounds are those of model.BinLatency.
test("latency slots touch, are at most an eighth wide, and hold what they say", () => {
  let from = 0;
  for (let slot = 0; slot < 250; slot++) {
    const to = above(slot);
    assert.ok(to > from);
    assert.equal(slotOf(from), slot);
    assert.equal(slotOf(to - 1), slot);
    if (slot >= 8) assert.ok((to - from) / from <= 0.125);
    from = to;
  }
});

test("quantiles are those of the answers counted", () => {
  const s = series([4, 100], [0, 0], { latency: [[10, 4], [20, 95, 40, 4, 60, 1]] });
  const h = histogram(s, 1, 1);
  assert.deepEqual([quantile(h, 0.5), quantile(h, 0.99), quantile(h, 1)], [20, 40, 60]);
  assert.equal(quantile(histogram(s, 0, 2), 0.01), 10);
  assert.equal(quantile(histogram(s, 7, 2), 0.5), undefined);
  assert.deepEqual(extent(s), { low: 10, high: 60 });
  assert.equal(extent(series([1], [1])), undefined);
});

test("failures are counted by the seconds before an instant", () => {
  const classes = new Map([[0, new Map([["refused", 9]])], [25, new Map([["refused", 2], ["reset", 1]])], [39, new Map([["refused", 4]])]]);
  assert.deepEqual(failuresBefore({ share: [], gap: [], classes }, 100e6, 4e9, 3), [0, 3, 4]);
});
