import type { ComponentChildren } from "preact";
import type { Clock } from "./clock";
import { atMost, count, coverage, duration, length, percent, plural, rate } from "./format";
import { faults } from "./health";
import { type Length, type RunInfo, type Target, type Verdict, judged } from "./model";
import type { Run } from "./run";
import { open } from "./windows";

const results = {
  pass: { symbol: "✓", word: "Pass" },
  fail: { symbol: "✗", word: "Fail" },
  inconclusive: { symbol: "?", word: "Inconclusive" },
  ungated: { symbol: "○", word: "No gate" },
};

/** Header is the run at a glance: the verdict in a word, in a sentence, and in figures. */
export function Header({ run, clock }: { run: Run; clock: Clock }) {
  const { verdict: v, info, live } = run;
  const result = (v && results[v.result]) ?? { symbol: "…", word: "Measuring" };
  const cut = run.windows.some((w) => w.kind !== "slow" && open(w)); // then only lower bounds are known
  const services = info?.services?.map((s) => `${s.namespace}/${s.name}`) ?? [];
  return (
    <section class={`panel verdict ${v?.result ?? "ungated"}`} data-testid="verdict" data-result={v?.result} aria-label="Verdict">
      <div class="verdict-line">
        <div class="result" data-testid="verdict-result">
          <span class="symbol" aria-hidden="true">{result.symbol}</span>
          <span>{result.word}</span>
          {live && <small>so far</small>}
        </div>
        <div class="summary">
          <p class="sentence" data-testid="sentence">{v ? sentence(v, cut) : "No request has been judged yet."}</p>
          <p class="faint">
            <b>{[...services, ...(info?.urls ?? [])].join(", ")}</b>
            {" · "}{clock.day()} {clock.at(0, 0)} {clock.name}, {live ? `for ${duration(run.now)} now` : `took ${duration(info?.duration ?? 0)}`}
            {info?.cluster?.version && ` · Kubernetes ${info.cluster.version}`}
            {info?.cluster?.proxyMode && ` (${info.cluster.proxyMode})`}
            {info?.aborted && <span class="bad"> · {info.truncated ? recorded(info) : "aborted"}: {info.aborted}</span>}
            {info?.unsaved && <span class="bad"> · not all on disk: {info.unsaved}</span>}
          </p>
        </div>
      </div>
      {v && <Figures verdict={v} targets={run.targets} cut={cut} />}
      {v && <Gates verdict={v} />}
    </section>
  );
}

function sentence(v: Verdict, cut: boolean): string {
  if (!v.failed) return `No failed request seen. An outage of all requests shorter than ${atMost(v.detectionLimit)} may have gone unseen.`;
  return `${plural(v.failed, "request")} failed: ${length(v.downtime.total, cut)} of downtime in ${plural(v.windows, "window")}.`;
}

function Figures({ verdict: v, targets, cut }: { verdict: Verdict; targets: Target[]; cut: boolean }) {
  const ours = targets.filter((t) => judged(t.kind));
  return (
    <dl class="figures">
      <Figure id="failed" name="Failed requests" bad={v.failed > 0} note={`of ${count(v.sent)}`}>{count(v.failed)}</Figure>
      <Figure id="downtime" name="Downtime" bad={v.failed > 0} note="request-weighted">{uncertain(v.failed ? v.downtime.total : undefined, v, cut)}</Figure>
      <Figure id="longest-window" name="Longest window" bad={!!v.longestWindow} note={plural(v.windows, "window")}>{uncertain(v.longestWindow, v, cut)}</Figure>
      <Figure id="error-rate" name="Error rate" bad={v.failed > 0} note="failed ÷ sent">{percent(v.errorRate)}</Figure>
      <Figure id="rate" name="Rate" note={`of ${sum(ours, (t) => t.rate)}/s asked for`}>{sum(ours, (t) => t.achievedRate)}/s</Figure>
      <Figure id="latency" name="Latency p99" note="from due">{v.latencyP99 === undefined ? "–" : duration(v.latencyP99)}</Figure>
      <Figure id="coverage" name="Coverage" bad={v.coverage < 0.99} note={v.validity.unobserved ? `${duration(v.validity.unobserved)} unobserved` : "nothing unobserved"}>{coverage(v.coverage)}</Figure>
      <Validity verdict={v} />
    </dl>
  );
}

const sum = (targets: Target[], of: (t: Target) => number): string => rate(targets.reduce((all, t) => all + of(t), 0));

/** A zero is an upper bound: what we could not have seen. */
const uncertain = (l: Length | undefined, v: Verdict, cut: boolean): string => (l ? length(l, cut) : `< ${atMost(v.detectionLimit)}`);

function Figure({ id, name, note, bad, children }: { id: string; name: string; note?: string; bad?: boolean; children: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd class={bad ? "bad" : ""} data-testid={id}>{children}</dd>
      <dd class="faint note">{note}</dd>
    </div>
  );
}

/** Validity says how good the measurement itself was. */
function Validity({ verdict: v }: { verdict: Verdict }) {
  const wrong = faults(v);
  return (
    <Figure id="validity" name="Measurement" bad={v.coverage < 0.99} note={[...wrong, `late ${percent(v.validity.late)}`].join(" · ")}>
      {wrong.length ? "! Limited" : "✓ Valid"}
    </Figure>
  );
}

const outcomes = { pass: "✓", fail: "✗", undecided: "?" };

// recorded says how much of a run was recorded whose recording ends before it did.
function recorded(info: RunInfo): string {
  const of = (info.planned ?? 0) > info.duration ? ` of ${duration(info.planned!)}` : "";
  return `recorded for ${duration(info.duration)}${of}`;
}

function Gates({ verdict: v }: { verdict: Verdict }) {
  if (!v.gates?.length && !v.reasons?.length) return null;
  return (
    <div class="gates">
      {v.gates?.map((g) => (
        <span key={g.expr} class={`gate ${g.outcome}`} data-testid="gate" data-outcome={g.outcome} title={`Fails if ${g.expr}`}>
          <b aria-hidden="true">{outcomes[g.outcome]}</b> fails if <code>{g.expr}</code>: {g.outcome}
        </span>
      ))}
      {v.reasons?.map((r) => <span key={r} class="reason">{r}</span>)}
    </div>
  );
}
