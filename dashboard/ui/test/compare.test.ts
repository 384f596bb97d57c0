import assert from "node:assert/strict";
import { test } from "node:test";
import { Since } from "../src/clock";
import { Scale, ticks } from "../src/scale";

test("compared runs count from the beginning of their commands, in round steps", () => {
  const clock = new Since(Date.parse("2026-03-14T02:20:38.412Z"), 3.3e9);
  assert.equal(clock.at(3.3e9), "+0.000\u00a0s");
  assert.equal(clock.at(1.05e9, 2), "−2.25\u00a0s");
  const at = ticks(new Scale({ from: 0, to: 10e9 }, 600), clock, 90).map((t) => clock.at(t.at, t.digits));
  assert.deepEqual(at, ["−2\u00a0s", "+0\u00a0s", "+2\u00a0s", "+4\u00a0s", "+6\u00a0s"]);
});
