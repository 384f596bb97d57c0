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
  const chart = new Chart(curve(known), 200, 100, 2.2e9);
  assert.equal(chart.x(2.2e9), 200);
  assert.deepEqual(chart.xTicks(), [0, 0.5e9, 1e9, 1.5e9, 2e9]);
  assert.deepEqual(chart.yTicks(), [0, 50, 100]);
  assert.deepEqual([chart.y(100), chart.y(0)], [0, 100]);
});

test("advised is the longest route and a margin, where a preStop sleep is advised", () => {
  const measures = [{ name: "route-lag", length: { min: 0.5e9, max: 1.2e9 } }, { name: "route-lag", length: { min: 0.1e9, max: 0.3e9 } }];
  const cause = { measures, sleep: { margin: 1e9 } };
  assert.equal(advisedOf([{ causes: [cause] as never }]), 2.2e9);
  assert.equal(advisedOf([{ causes: [{ measures }] as never }]), undefined);
});
