import assert from "node:assert/strict";
import { test } from "node:test";
import { dragged, grip } from "../src/brush";
import { Clock } from "../src/clock";
import { around, pan, Scale, ticks, wholeRun, within, zoom } from "../src/scale";

const whole = { from: 0, to: 100e9 };

test("zooming leaves in place what is under the pointer", () => {
  const r = zoom({ from: 20e9, to: 60e9 }, 0.5, 30e9, whole);
  assert.deepEqual(r, { from: 25e9, to: 45e9 });
  assert.equal(new Scale(r, 1000).x(30e9), new Scale({ from: 20e9, to: 60e9 }, 1000).x(30e9));
});

test("no range leaves the run behind, shows more than it, or nothing", () => {
  for (const r of [pan({ from: 90e9, to: 99e9 }, 50, whole), zoom(whole, 100, 3e9, whole), zoom({ from: 5, to: 6 }, 1e-9, 5, whole), within({ from: -1e12, to: -2e11 }, whole)]) {
    assert.ok(r.to - r.from >= 1e6 && r.to - r.from <= 120e9, JSON.stringify(r));
    assert.ok(r.to > whole.from && r.from < whole.to, JSON.stringify(r));
  }
});

test("a window is shown with its surroundings", () => {
  assert.deepEqual(around(10e9, 12e9), { from: 7e9, to: 15e9 });
  assert.deepEqual(around(10e9, 10e9), { from: 10e9 - 50e6, to: 10e9 + 50e6 });
});

test("a live axis rests between steps and always shows what there is", () => {
  let steps = 0;
  let last = 0;
  for (let now = 0; now < 600e9; now += 250e6) {
    const { to } = wholeRun(now, true);
    assert.ok(to > now);
    if (to !== last) steps++;
    last = to;
  }
  assert.ok(steps < 30, `${steps} steps in 10 minutes`);
});

test("ticks stand at round times of day, also in zones half an hour apart", () => {
  process.env["TZ"] = "Asia/Kolkata"; // UTC+05:30
  const t0 = Date.parse("2026-03-14T02:20:38Z") + 412.907113;
  for (const [zone, hour] of [["utc", "03:00:00"], ["local", "08:00:00"]] as const) {
    const clock = new Clock(t0, zone);
    const times = ticks(new Scale({ from: 0, to: 3600e9 * 3 }, 600), clock, 90).map((t) => clock.at(t.at + 5e5, t.digits));
    assert.ok(times.includes(hour), `${zone}: ${times}`);
    assert.ok(times.every((t) => /:(00|30):00$/.test(t)), `${zone}: ${times}`);
  }
  assert.equal(new Clock(t0, "local").name, "UTC+05:30");
  assert.equal(new Clock(t0, "local").at(0), "07:50:38.412");
  assert.equal(new Clock(t0, "utc").bracket({ earliest: 0, latest: 10e6 }), "02:20:38.412 … 02:20:38.422");
  assert.equal(new Clock(t0, "utc").began({ earliest: 0, latest: 10e6 }), "02:20:38.417");
  assert.equal(new Clock(t0, "utc").began({ earliest: 0, latest: 1001e6 }), "by 02:20:39.413");
});

test("the overview's edges can be taken even when the part in view is narrow", () => {
  assert.equal(grip(100, 99, 102, false), "from");
  assert.equal(grip(103, 99, 102, false), "to");
  assert.equal(grip(150, 100, 200, false), "move");
  assert.equal(grip(300, 100, 200, false), "new");
  assert.equal(grip(150, 0, 1000, true), "new");
});

test("dragging an edge past the other turns the part round", () => {
  const r = { from: 20e9, to: 40e9 };
  assert.deepEqual(dragged("from", r, 20e9, 50e9, whole), { from: 40e9, to: 50e9 });
  assert.deepEqual(dragged("to", r, 40e9, 45e9, whole), { from: 20e9, to: 45e9 });
  assert.deepEqual(dragged("move", r, 30e9, 35e9, whole), { from: 25e9, to: 45e9 });
  assert.deepEqual(dragged("new", r, 80e9, 70e9, whole), { from: 70e9, to: 80e9 });
});
