import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { atLeast, atMost, classCounts, coverage, duration, length, number, percent, plural, relative, shortPod } from "../src/format";

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

interface Example { kind: string; value: unknown; text: string }

const writers: Record<string, (value: never) => string> = {
  span: duration, lowest: atLeast, highest: atMost, percent, coverage, number, classes: classCounts,
  length: ([min, max]: [number, number]) => length({ min, max }),
  "open length": ([min, max]: [number, number]) => length({ min, max }, true),
  count: (n: number) => plural(n, "request"),
};

// The Go test of correlate/quantity reads the same examples: both write each value alike.
test("values read as in the terminal", () => {
  const examples = JSON.parse(readFileSync("../../correlate/quantity/testdata/examples.json", "utf8")) as Example[];
  assert.ok(examples.length > 0);
  for (const { kind, value, text } of examples) {
    const write = writers[kind];
    assert.ok(write, `unknown kind ${kind}`);
    assert.equal(plain(write(value as never)), text, `${kind} ${JSON.stringify(value)}`);
  }
});

test("an error bar is never shown narrower than it is", () => {
  let read = 0;
  for (let min = 1_003; min < 40e9; min = Math.round(min * 1.31)) {
    for (let width = 17; width < 2 * min; width = Math.round(width * 2.7)) {
      const max = min + width;
      const text = plain(length({ min, max }));
      const [, mid, unit, spread] = /^([\d.]+) (s|ms|µs) ±([\d.]+)$/.exec(text) ?? [];
      const ns = { s: 1e9, ms: 1e6, "µs": 1e3 }[unit as "s"];
      assert.ok((Number(mid) - Number(spread)) * ns <= min + 0.01 && (Number(mid) + Number(spread)) * ns >= max - 0.01, `${text} for ${min} to ${max}`);
      read++;
    }
  }
  assert.ok(read > 100);
});

test("times of evidence count from the first failure", () => {
  assert.equal(plain(relative(10e9, 10e9)), "T+0");
  assert.equal(plain(relative(9.588e9, 10e9)), "T−412 ms");
  assert.equal(plain(relative(11.2e9, 10e9)), "T+1.200 s");
  assert.equal(shortPod("web-5c9d8f7b6-x2kzq"), "x2kzq");
  assert.equal(shortPod("db-0"), "db-0");
  assert.equal(shortPod("shop/db-0"), "db-0");
});
