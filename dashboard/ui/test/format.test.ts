import assert from "node:assert/strict";
import { test } from "node:test";
import { atMost, coverage, duration, length, percent, relative, shortPod } from "../src/format";

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

test("lengths of time have three digits at most, and their unit", () => {
  for (const [ns, text] of [[0, "0 s"], [1_500, "1.5 µs"], [1_900_000, "1.9 ms"], [82e6, "82 ms"], [3.09e9, "3.09 s"], [17.2e9, "17.2 s"], [245e9, "4 min 05 s"], [3661e9, "1 h 01 min"]] as const) {
    assert.equal(plain(duration(ns)), text);
  }
});

test("an error bar is never shown narrower than it is", () => {
  const lengths: (readonly [number, number])[] = [[78e6, 114e6], [3_061e6, 3_102e6], [0, 1e6], [1_234_567, 1_234_999], [0.2e9, 61e9]];
  for (let min = 1_003; min < 40e9; min = Math.round(min * 1.31)) {
    for (let width = 17; width < 20e9; width = Math.round(width * 2.7)) lengths.push([min, min + width]);
  }
  for (const [min, max] of lengths) {
    const text = plain(length({ min, max }));
    const [, mid, unit, spread] = /^([\d.]+) (s|ms|µs) ±([\d.]+)$/.exec(text) ?? [];
    if (!mid) continue; // longer than a minute
    const ns = { s: 1e9, ms: 1e6, "µs": 1e3 }[unit as "s"];
    assert.ok((Number(mid) - Number(spread)) * ns <= min + 1e-3 * ns && (Number(mid) + Number(spread)) * ns >= max - 1e-3 * ns, `${text} for ${min} to ${max}`);
  }
  assert.equal(plain(length({ min: 78e6, max: 114e6 }, true)), "≥ 78 ms");
  assert.equal(plain(length({ min: 1.2e6, max: 48.2e6 })), "1.2 ms to 49 ms");
  assert.equal(plain(length({ min: 0, max: 4.51e6 })), "< 4.6 ms");
  assert.equal(plain(length({ min: 0, max: 9e6 }, true)), "unknown");
  assert.equal(plain(length({ min: 97.9e6, max: 114e6 }, true)), "≥ 97 ms");
});

test("a small share never reads as none, nor a nearly full one as full", () => {
  assert.equal(plain(percent(0)), "0 %");
  assert.equal(plain(percent(1e-9)), "< 0.01 %");
  assert.equal(plain(percent(0.00021)), "0.03 %");
  assert.equal(plain(percent(0.99396)), "99.39 %");
  assert.equal(plain(percent(1 - 1e-9)), "> 99.99 %");
  assert.equal(plain(percent(1)), "100 %");
});

test("a story counts from the first failure", () => {
  assert.equal(plain(relative(10e9, 10e9)), "T+0");
  assert.equal(plain(relative(9.588e9, 10e9)), "T−412 ms");
  assert.equal(plain(relative(11.2e9, 10e9)), "T+1.200 s");
  assert.equal(shortPod("web-5c9d8f7b6-x2kzq"), "x2kzq");
  assert.equal(shortPod("db-0"), "db-0");
});

test("coverage and upper bounds never flatter", () => {
  assert.equal(coverage(0.9897), "98.97\u00a0%");
  assert.equal(coverage(0.98999), "98.99\u00a0%");
  assert.equal(coverage(1), "100\u00a0%");
  assert.equal(coverage(0), "0\u00a0%");
  assert.equal(atMost(12.24e6), "13\u00a0ms");
});
