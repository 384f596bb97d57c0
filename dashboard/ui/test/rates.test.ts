import assert from "node:assert/strict";
import { test } from "node:test";
import type { Target } from "../src/model";
import { rateChanges, rateText } from "../src/rates";

const target = (more: Partial<Target>) => ({ kind: "new", rate: 100, resolution: 200e6, rerated: { at: { earliest: 9e9, latest: 10e9 }, from: 5, resolution: 10e6 }, ...more }) as Target;

test("a change of the rate is told once, with what it means for what is known", () => {
  const { rerated: _, ...steady } = target({});
  const changes = rateChanges([target({ rerated: { at: { earliest: 9e9, latest: 10e9 - 7000 }, from: 5, resolution: 10e6 } } as Partial<Target>), target({ kind: "reused", resolution: 210e6 }), target({ kind: "plane" }), steady as Target]);
  assert.equal(changes.length, 1);
  assert.equal(rateText(changes[0]!, "10:00").replaceAll("\u00a0", " "), "Requests were sent at 5/s until 10:00, and at 100/s since: what failed before is known to 210 ms, later failures to 10 ms.");
});
