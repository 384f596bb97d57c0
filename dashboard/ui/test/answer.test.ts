import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { answerOf, markdown } from "../src/answer";
import { whole } from "../src/embedded";
import type { TimelineFile } from "../src/model";
import { Run } from "../src/run";

function saved(name: string): Run {
  const run = new Run();
  run.apply(whole(JSON.parse(readFileSync("../../internal/report/testdata/" + name, "utf8")) as TimelineFile));
  return run;
}

test("the answer of a run with failures is what is said of its most harmful incident", () => {
  const run = saved("race.json");
  const answer = answerOf(run);
  assert.equal(answer?.incident.id, 1);
  const text = markdown(run, "");
  assert.ok(text.startsWith(`**${run.said?.word}**: `));
  for (const field of ["When", "What", "Why", "Do"]) assert.ok(text.includes(`- **${field}**: `), `${field} in ${text}`);
  assert.equal(text.split(run.incidents[0]?.said.when.slice(0, 10) ?? "").length, 2, "the day once"); // it is in WHEN
});

test("a run without failures has no answer but its sentence", () => {
  const run = saved("clean.json");
  assert.equal(answerOf(run), undefined);
  assert.match(markdown(run, ""), /^\*\*PASS\*\*: /);
});

test("names are no signs of Markdown", () => {
  const run = saved("clean.json");
  run.apply({ protocol: 1, epoch: "saved", seq: 1, put: { said: { ...run.said, headline: "a *b* <img> `c` [d](e) 5 ms" } } });
  const text = markdown(run, "http://127.0.0.1/#incident=1");
  assert.match(text, /a \\\*b\\\* \\<img\\> \\`c\\` \\\[d\\\]\(e\) 5 ms/);
  assert.ok(!text.includes("\u00a0"));
});
