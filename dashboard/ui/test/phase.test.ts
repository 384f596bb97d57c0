import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event, RunInfo } from "../src/model";
import { phaseOf } from "../src/phase";

const enters = (to: string, seen: number) => ({ kind: "run", to, seen, at: { earliest: seen, latest: seen } }) as Event;
const info = { baseline: 5e9, settle: 10e9 } as RunInfo;

test("a run says which phase it is in, and what is left of those whose length is known", () => {
  const events = [enters("baseline", 0)];
  assert.deepEqual(phaseOf([], info, 1e9), undefined);
  assert.deepEqual(phaseOf(events, info, 1.1e9), { name: "baseline", left: 3.9e9 });
  events.push(enters("measuring", 5e9));
  assert.deepEqual(phaseOf(events, info, 9e9), { name: "measuring" });
  events.push(enters("settling", 20e9));
  assert.deepEqual(phaseOf(events, info, 31e9), { name: "settling", left: 0 });
  events.push(enters("ended", 31e9));
  assert.deepEqual(phaseOf(events, info, 31e9), undefined);
});
