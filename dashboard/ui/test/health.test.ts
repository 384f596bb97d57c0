import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { glued, worstOf } from "../src/format";
import { proberText } from "../src/health";
import { whole } from "../src/embedded";
import type { TimelineFile } from "../src/model";
import { Run } from "../src/run";

const read = (name: string) => JSON.parse(readFileSync("../../internal/report/testdata/" + name, "utf8")) as TimelineFile;

/** saved is the page's copy of a saved run. */
function saved(file: TimelineFile): Run {
  const run = new Run();
  run.apply(whole(file));
  return run;
}

/** plain is a text as the terminal writes it: the page glues figures to their units. */
const plain = (text: string): string => text.replaceAll("\u00a0", " ");

test("a saved report has the sentences and what became of held connections", () => {
  const file = read("held-only.json");
  const run = saved(file);
  assert.deepEqual(run.held, file.held);
  assert.equal(run.said?.soundness, "valid");
  assert.match(run.said?.trust ?? "", /^measurement: valid/);
});

test("figures of a sentence keep their units, and words are left alone", () => {
  const text = "5 of 80 s failed: down 41 ms ±4, 4 min 5 s, 92.73 % of 3 shards";
  assert.equal(plain(glued(text)), text);
  assert.equal(glued(text).match(/\u00a0/g)?.length, 5);
});

test("figures of one target are not called the worst of several", () => {
  const of = (name: string, only: (kind: string) => boolean): string => {
    const file = read(name);
    return worstOf(saved({ ...file, targets: file.targets.filter((t) => only(t.kind)) }).judgedTargets);
  };
  assert.match(of("two-services.json", () => true), /worst of 3 targets/);
  assert.equal(of("two-services.json", (kind) => kind === "direct" || kind === "control"), "");
});

test("how good the measurement was is said in the words of the document", () => {
  const { said } = read("clean.json");
  assert.equal(plain(proberText(said)), said.prober.map((l) => l.text).join(" · "));
});
