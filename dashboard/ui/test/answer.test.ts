import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { answerOf, markdown } from "../src/answer";
import { Clock } from "../src/clock";
import { whole } from "../src/embedded";
import type { TimelineFile } from "../src/model";
import { Run } from "../src/run";

function saved(name: string): Run {
  const run = new Run();
  run.apply(whole(JSON.parse(readFileSync("../../internal/report/testdata/" + name, "utf8")) as TimelineFile));
  return run;
}

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

test("a run with failures is answered with when, where, why and what to do", () => {
  const run = saved("race.json");
  const answer = answerOf(run, new Clock(run.t0, "utc"));
  assert.ok(answer);
  assert.match(plain(answer.when), /^\d\d:\d\d:\d\d\.\d to \d\d:\d\d:\d\d\.\d UTC \([\d.]+ m?s\).*; set off by: /);
  assert.match(answer.where, /\d+ of \d+/);
  assert.ok(answer.why.length > 0 && answer.why.every((l) => l.kind === "cause"));
  assert.ok(answer.fix.every((l) => l.kind === "fix" || l.kind === "next"));
});

test("a run without failures has no answer but its sentence", () => {
  const run = saved("clean.json");
  assert.equal(answerOf(run, new Clock(run.t0, "utc")), undefined);
  assert.match(markdown(run, new Clock(run.t0, "utc"), "Pass", ""), /^\*\*Pass\*\*: no failure seen/);
});

test("names are no signs of Markdown", () => {
  const run = saved("clean.json");
  run.apply({ protocol: 1, epoch: "saved", seq: 1, put: { said: { ...run.said, headline: "a *b* <img> `c` [d](e) 5 ms" } } });
  const text = markdown(run, new Clock(run.t0, "utc"), "Pass", "http://127.0.0.1/#incident=1");
  assert.match(text, /a \\\*b\\\* \\<img\\> \\`c\\` \\\[d\\\]\(e\) 5 ms/);
  assert.ok(!text.includes("\u00a0"));
});
