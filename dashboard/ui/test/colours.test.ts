import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

/** Each colour of the page means one thing. A selector that is to have one stands here, with what it means. */
const meanings: Record<string, [meaning: string, RegExp]> = {
  "--ok": ["nothing failed", /\.pass\b|\.none/],
  "--bad": ["requests failed", /^\.bad$|\.fail\b|\.partial/],
  "--mark": ["requests failed", /\.fail\b|\.band|\.mark|\.keep-serving|\.curve|\.run-bars/],
  "--onmark": ["on what marks failures", /\.mark/],
  "--band": ["requests failed", /\.band/],
  "--link": ["can be followed, or is selected", /^a$|focus|selected|\.selection|\.pinned|:hover/],
};

test("each colour means one thing", () => {
  const css = readFileSync("src/page.css", "utf8");
  const uses = [...css.matchAll(/^\s*([^@{}\n]+?) \{([^}]*)\}/gm)].flatMap(([, selector, body]) =>
    [...body!.matchAll(/var\((--[a-z]+)\)/g)].filter(([, name]) => meanings[name!]).map(([, name]) => ({ selector: selector!, name: name! })));
  assert.ok(uses.length > 15, `${uses.length} uses found`);
  for (const { selector, name } of uses) {
    const [meaning, allowed] = meanings[name]!;
    for (const one of selector.split(", ")) assert.match(one, allowed, `${name} means: ${meaning}`);
  }
});

test("what is painted has its colours from the theme, where each is explained", () => {
  const paint = readFileSync("src/paint.ts", "utf8");
  const fills = /classFills: [^]*?\n};/.exec(paint)![0];
  assert.doesNotMatch(fills, /#[0-9a-f]{6}/);
});
