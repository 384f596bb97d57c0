import assert from "node:assert/strict";
import { test } from "node:test";
import { curve, leftText, outline } from "../src/keepserving";

const known = { failed: 100, others: 0, left: [{ longer: 200e6, min: 40, max: 60 }, { longer: 500e6, min: 0, max: 0 }] };

test("the curve begins with what was seen", () => {
  assert.deepEqual(curve(known).map((p) => [p.longer, leftText(p)]), [[0, "100"], [200e6, "40 to 60"], [500e6, "0"]]);
});

test("its outline goes along the upper bounds and back along the lower ones", () => {
  assert.equal(outline(curve(known), 50, 100), "0,0 20,40 50,100 50,100 20,60 0,0");
});
