import assert from "node:assert/strict";
import { test } from "node:test";
import { advisedOf, Chart, curve, leftText } from "../src/keepserving";

const known = { failed: 100, others: 0, left: [{ longer: 200e6, min: 40, max: 60 }, { longer: 500e6, min: 0, max: 0 }] };

test("the curve begins with what was seen", () => {
  assert.deepEqual(curve(known).map((p) => [p.longer, leftText(p)]), [[0, "100"], [200e6, "40 to 60"], [500e6, "0"]]);
});

test("its outline goes along the upper bounds and back along the lower ones", () => {
  assert.equal(new Chart(curve(known), 50, 100).outline(), "0,0 20,40 50,100 50,100 20,60 0,0");
});

test("the axis reaches to what is advised, with round values on it", () => {
  const chart = new Chart(curve(known), 320, 100, 2.2e9);
  assert.equal(chart.x(2.2e9), 320);
  assert.deepEqual(chart.xTicks(), [0, 0.5e9, 1e9, 1.5e9, 2e9]);
  assert.deepEqual(new Chart(curve(known), 180, 100, 2.2e9).xTicks(), [0, 1e9, 2e9]);
  assert.deepEqual(chart.yTicks(), [0, 50, 100]);
  assert.deepEqual([chart.y(100), chart.y(0)], [0, 100]);
});

test("advised is what the answer says: the longest sleep and its margin, in whole seconds", () => {
  const measures = [{ name: "route-lag", length: { min: 0.5e9, max: 3.2e9 } }];
  const causes = [{ measures, sleep: { measured: 0.258e9, margin: 1e9 } }, { sleep: { measured: 0.1e9, margin: 0.5e9 } }];
  assert.equal(advisedOf([{ causes: causes as never }]), 2e9);
  assert.equal(advisedOf([{ causes: [{ measures }] as never }]), undefined);
});
