import assert from "node:assert/strict";
import { test } from "node:test";
import type { CutWindow } from "../src/model";
import { standing, standingAt } from "../src/standing";

const cut = (at: number, failed: number, more: Partial<CutWindow> = {}) => ({ start: { earliest: at - 1, latest: at }, failed, ...more }) as CutWindow;

test("connections stand until they are cut, and again when the last of them is back", () => {
  const steps = standing({ stood: 100, windows: [cut(10, 51, { back: { min: 2, max: 5 } }), cut(30, 40)] });
  assert.deepEqual(steps.map((s) => [s.at, s.count]), [[-Infinity, 100], [10, 49], [15, 100], [30, 60]]);
  assert.deepEqual([9, 10, 20, 99].map((at) => standingAt(steps, at)), [100, 49, 100, 60]);
});

test("those that never came back are missing", () => {
  assert.equal(standingAt(standing({ stood: 10, windows: [cut(1, 4, { back: { min: 1, max: 1 }, missing: 3 })] }), 50), 7);
});
