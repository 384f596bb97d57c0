import assert from "node:assert/strict";
import { test } from "node:test";
import type { CutWindow } from "../src/model";
import { standing, standingAt, standingText } from "../src/standing";

const cut = (at: number, failed: number, more: Partial<CutWindow> = {}) => ({ start: { earliest: at - 1, latest: at }, failed, ...more }) as CutWindow;

test("connections stand until they are cut, and again when the last of them is back", () => {
  const steps = standing({ stood: 100, windows: [cut(10, 51, { back: { min: 2, max: 5 } }), cut(30, 40)] });
  assert.deepEqual(steps.map((s) => [s.at, s.count]), [[-Infinity, 100], [10, 49], [15, 100], [30, 60]]);
  assert.deepEqual([9, 10, 20, 99].map((at) => standingAt(steps, at)), [100, 49, 100, 60]);
});

test("those that never came back are missing", () => {
  assert.equal(standingAt(standing({ stood: 10, windows: [cut(1, 4, { back: { min: 1, max: 1 }, missing: 3 })] }), 50), 7);
});

test("a cut that is mended at once is written where it was", () => {
  const steps = [{ at: 0, count: 60 }, { at: 5, count: 37 }, { at: 6, count: 60 }];
  assert.deepEqual([standingText(steps, 0, 100), standingText(steps, 1, 1), standingText(steps, 2, 1), standingText(steps, 2, 100)], ["60", "↓ 37", "", "60"]);
});
