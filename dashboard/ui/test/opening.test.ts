import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event, Incident, Window } from "../src/model";
import { eventRange, incidentRange, longestFailing, mostHarmful, opening, windowRange } from "../src/opening";

const whole = { from: 0, to: 20e9 };
const at = (earliest: number, latest = earliest) => ({ earliest, latest });
const incident = (id: number, start: number, end: number, downtime = 0, ...steps: number[]) =>
  ({ id, start: at(start - 0.3e9, start), end: at(end, end + 0.3e9), failed: 1, downtime: { min: 0, max: downtime }, said: { phases: steps.map((s) => ({ at: at(s) })) } }) as Incident;

test("the page opens a second before the most harmful incident and two after it", () => {
  const [small, large] = [incident(1, 3e9, 3.1e9, 1), incident(2, 8e9, 9e9, 2)];
  assert.deepEqual(mostHarmful([small, large]).map((i) => i.id), [2, 1]);
  assert.deepEqual(opening([small, large], whole), { from: 7e9, to: 11e9 });
  assert.deepEqual(opening([], whole), whole);
});

test("an incident is shown with more of its surroundings if it is long, and nothing outside the run", () => {
  assert.deepEqual(incidentRange(incident(1, 0.2e9, 0.4e9), whole), { from: 0, to: 3.2e9 });
  assert.deepEqual(incidentRange(incident(1, 400e9, 600e9), { from: 0, to: 1000e9 }), { from: 380e9, to: 640e9 });
  assert.deepEqual(incidentRange(incident(1, 1e9, 19e9), whole), whole);
});

test("an incident is shown with its steps, unless they are far from it", () => {
  const cut = incident(1, 15e9, 15e9, 0, 1e9, 9.5e9, 15e9, 18e9);
  assert.deepEqual(incidentRange(cut, whole), { from: 9.2e9, to: 18.3e9 });
});

test("of several incidents the one that failed longest is said", () => {
  assert.deepEqual(longestFailing([incident(1, 3e9, 4e9), incident(2, 8e9, 9.5e9), { ...incident(3, 10e9, 19e9), failed: 0 }]), { from: 8e9, to: 9.5e9 });
  assert.equal(longestFailing([]), undefined);
});

test("no window and no event is shown from before the run", () => {
  assert.equal(windowRange({ start: at(0, 1e9), end: at(2e9) } as Window, whole).from, 0);
  const first = { seen: 0.4e9, at: at(-9007199254740991, 0.4e9) } as Event;
  assert.deepEqual(eventRange(first, whole), { from: 0, to: 2e9 });
  assert.deepEqual(eventRange({ seen: 10e9, at: at(10e9) } as Event, whole), { from: 9e9, to: 11e9 });
  assert.deepEqual(eventRange({ seen: 20e9, at: at(19e9, 20e9) } as Event, whole), { from: 16e9, to: 20e9 });
});
