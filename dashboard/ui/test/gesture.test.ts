import assert from "node:assert/strict";
import { test } from "node:test";
import { wait } from "../src/gesture";

test("news wait for the end of a gesture, and not longer than 1.5 s", () => {
  assert.equal(wait(1000, 1000, -Infinity), 0, "without a gesture they do not wait");
  assert.equal(wait(1000, 1000, 990), 140, "a gesture is over 150 ms after its last step");
  assert.equal(wait(1000, 1140, 1130), 140, "each step makes them wait longer");
  assert.equal(wait(1000, 2450, 2440), 50, "but not for ever");
  assert.equal(wait(1000, 2500, 2490), 0);
});
