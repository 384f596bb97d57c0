import assert from "node:assert/strict";
import { test } from "node:test";
import { middleInView, placed } from "../src/placed";
import { Scale } from "../src/scale";

const scale = new Scale({ from: 0, to: 100 }, 1000); // 10 px each

test("a badge stands over the part of its window that is in view", () => {
  assert.equal(middleInView(scale, { from: 10, to: 20 }), 150);
  assert.equal(middleInView(scale, { from: -100, to: 20 }), 100);
  assert.equal(middleInView(scale, { from: -10, to: -5 }), undefined);
});

test("badges of one instant stand beside each other, and steps below each other", () => {
  const at = (aside: number) => placed([1, 2, 3], () => 500, 20, 1000, 4, aside).map(({ left, level }) => [left, level]);
  assert.deepEqual(at(0), [[490, 0], [490, 1], [490, 2]]);
  assert.deepEqual(at(100), [[490, 0], [512, 0], [534, 0]]);
});

test("no badge leaves the plot", () => {
  assert.deepEqual(placed([1, 2], () => 1000, 20, 1000, 4, 100).map(({ left, level }) => [left, level]), [[980, 0], [980, 1]]);
});
