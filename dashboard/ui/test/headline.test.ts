import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Found, caveats, gateRemark, headline, scorecardWords, soundness, windowLength, worstOf } from "../src/headline";
import { faults, healthLine } from "../src/health";
import { advice, causeText, incidentDowntime, incidentErrors, incidentRequests, lasted, losses, mostHarmful, setAsideText, setOffBy, windowsOf } from "../src/incidents";
import { whole } from "../src/embedded";
import type { TimelineFile } from "../src/model";
import { Run } from "../src/run";

const testdata = "../../report/testdata/";
const read = (name: string) => JSON.parse(readFileSync(testdata + name, "utf8"));

interface Lead { headline: string; caveats: string[]; gates: string[]; lengths: string[]; soundness: string; incidents: string[][]; scorecard?: string }

/** plain is a text as the terminal writes it: the page glues figures to their units. */
const plain = (text: string): string => text.replaceAll("\u00a0", " ");

const foundIn = (tl: TimelineFile): Found => ({
  verdict: tl.verdict, info: tl.run, held: tl.held ?? [], targets: tl.targets ?? [], windows: tl.windows ?? [], unobserved: tl.unobserved ?? [], events: tl.events ?? [], live: !!tl.run.live,
});

const leads = read("words/headlines.json") as Record<string, Lead>;

for (const [name, lead] of Object.entries(leads)) {
  test(`the page says of ${name} what the terminal says`, () => {
    const run = foundIn(read(`${name}.json`));
    assert.equal(plain(headline(run)), lead.headline);
    const page = caveats(run).map(plain);
    for (const line of lead.caveats.filter((l) => /^(it said|what would help|aborted|recorded)/.test(l))) assert.ok(page.includes(line), `${line} is not among ${page}`);
    assert.deepEqual((run.verdict.gates ?? []).map((g) => gateRemark(run, g)), lead.gates);
    assert.deepEqual(run.windows.map((w) => plain(windowLength(w))), lead.lengths);
    assert.equal(soundness(run), lead.soundness);
    const tl = read(`${name}.json`) as TimelineFile;
    const incidents = mostHarmful(tl.incidents ?? []).map((i) => {
      const windows = windowsOf(i, [...run.windows, ...(tl.held ?? []).flatMap((h) => h.windows)]);
      return [lasted(i, windows), incidentDowntime(i, windows), incidentRequests(i), incidentErrors(i), setOffBy(i), losses(i, windows), ...(i.setAside ? [setAsideText(i)] : []), ...i.causes.map((c) => causeText(c, windows, !!i.recurs)), ...advice(i).map((a) => `${a.label}: ${a.text}`)];
    });
    assert.deepEqual(incidents.map((i) => i.map(plain)), lead.incidents);
    const { scorecard } = read(`${name}.json`) as TimelineFile;
    assert.equal(scorecard && scorecardWords(scorecard), lead.scorecard);
  });
}

test("a saved report shows what became of held connections", () => {
  const file = read("held-only.json") as TimelineFile;
  const run = new Run();
  run.apply(whole(file));
  assert.deepEqual(run.held, file.held);
});

test("there are samples to compare", () => assert.ok(Object.keys(leads).length >= 8));

test("figures of one target are not called the worst of several", () => {
  const of = (name: string, only: (kind: string) => boolean): string => {
    const file = read(name) as TimelineFile;
    const run = new Run();
    run.apply(whole({ ...file, targets: (file.targets ?? []).filter((t) => only(t.kind)) }));
    return worstOf(run.brief.judged);
  };
  assert.match(of("two-services.json", () => true), /worst of 3 targets/);
  assert.equal(of("two-services.json", (kind) => kind === "direct" || kind === "control"), "");
});

test("the prober is measured by the coverage that the run requires", () => {
  const { verdict, info } = foundIn(read("clean.json"));
  const partly = { ...verdict, coverage: 0.95 };
  assert.deepEqual(faults({ verdict: partly, held: [], info: { ...info!, minCoverage: 0.9 } }), []);
  assert.deepEqual(faults({ verdict: partly, held: [], info: { ...info!, minCoverage: 0.99 } }), ["low coverage"]);
});

test("requests that the prober had no file descriptor for are no stall", () => {
  const { verdict } = foundIn(read("clean.json"));
  const short = { ...verdict, validity: { ...verdict.validity, notSent: 598, local: 598, shortage: "too many open files" } };
  assert.match(plain(healthLine(short)), /late 0 % · prober failed itself: 598 requests without evidence \(too many open files\) · control ok/);
  assert.deepEqual(faults({ verdict: short, held: [] }), ["the prober failed itself: too many open files"]);
});
