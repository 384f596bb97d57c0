import type { ComponentChildren } from "preact";
import { type Answer, answerOf, markdown } from "./answer";
import type { Clock } from "./clock";
import { CopyButton } from "./copy";
import { atMost, coverage, duration, glued, length, number, percent, plural, worstOf } from "./format";
import { proberText } from "./health";
import { LiveNow } from "./livenow";
import type { Length, Said, Verdict } from "./model";
import { longestFailing } from "./opening";
import type { Run } from "./run";
import type { TargetGroup } from "./sources";

interface Result { look: string; symbol: string; word: string }

const measuring: Result = { look: "ungated", symbol: "…", word: "Measuring" };
const failing: Result = { look: "fail", symbol: "✗", word: "FAIL so far" };
const looks: Record<string, Omit<Result, "word">> = {
  PASS: { look: "pass", symbol: "✓" }, FAIL: { look: "fail", symbol: "✗" }, "COMMAND FAILED": { look: "fail", symbol: "✗" },
  INCONCLUSIVE: { look: "inconclusive", symbol: "?" }, ABORTED: { look: "inconclusive", symbol: "?" }, "NO GATE": { look: "ungated", symbol: "○" },
};

/** resultOf is the run in a word, and what that looks like. While it goes on, only a failure is a result. */
export function resultOf({ verdict: v, said, live }: Pick<Run, "verdict" | "said" | "live">): Result {
  if (live || !said) return v?.result === "fail" ? failing : measuring;
  return { word: said.word, ...(looks[said.word] ?? looks["NO GATE"]!) };
}

/** Header is the run at a glance: the verdict in a word and in a sentence, and when, where, why, and what to do. */
export function Header({ run, clock }: { run: Run; clock: Clock }) {
  const { verdict: v, said, live } = run;
  const result = resultOf(run);
  const answer = answerOf(run);
  const link = (): string => (location.protocol === "file:" ? "" : location.href);
  return (
    <section class={`panel verdict ${result.look}`} data-testid="verdict" data-result={v?.result} aria-label="Verdict">
      <div class="verdict-line">
        <div class="result" data-testid="verdict-result">
          <span class="symbol" aria-hidden="true">{result.symbol}</span>
          <span>{result.word}</span>
        </div>
        <p class="sentence" data-testid="sentence">{said ? glued(said.headline) : "No request has been judged yet."}</p>
        {said?.extent && <p class="extent" data-testid="extent">{capital(glued(said.extent))}</p>}
      </div>
      {live && <LiveNow run={run} />}
      {answer && <AnswerFields answer={answer} keepServing={said?.keepServing} />}
      {said?.caveats.map(({ kind, text }) => <p key={text} class="caveat" data-testid="caveat" data-kind={kind}>{glued(text)}</p>)}
      <div class="foot">
        <About run={run} clock={clock} />
        {said && !live && (
          <p class="actions">
            <CopyButton name="Copy as Markdown" testid="copy-markdown" text={() => markdown(run, link())} />
          {answer?.incident.said.patch && <CopyButton name="Copy the patch" testid="copy-patch" text={() => answer.incident.said.patch!} />}
            {location.protocol !== "file:" && <CopyButton name="Copy link" testid="copy-link" text={link} />}
          </p>
        )}
      </div>
      {v && said && (
        <details class="all-figures" data-testid="all-figures">
          <summary>All figures</summary>
          <Figures verdict={v} said={said} run={run} clock={clock} />
          <Gates verdict={v} said={said} />
        </details>
      )}
    </section>
  );
}

/** AnswerFields say when, what and why requests failed, and what to do, in the words of the most harmful incident. */
function AnswerFields({ answer: { incident: { said }, more }, keepServing }: { answer: Answer; keepServing: string | undefined }) {
  return (
    <dl class="answer" data-testid="answer">
      <dt>When</dt><dd data-testid="answer-when">{glued(said.when)}{more > 0 && <span class="faint"> · and {plural(more, "incident")} more, below</span>}</dd>
      <dt>What</dt><dd data-testid="answer-what">{said.what.map((w) => <p key={w.of}><b>{w.of}</b> {glued(w.text)}</p>)}</dd>
      {said.why && <><dt>Why</dt><dd data-testid="answer-why">{glued(said.why)}</dd></>}
      {said.do.length > 0 && (
        <>
          <dt>Do</dt>
          <dd class="do" data-testid="answer-do">
            {said.do.map((text, i) => (
              <div key={text}>
                <p>{glued(text)}</p>
                {i === 0 && said.patch && <pre data-testid="patch" tabIndex={0}>{said.patch}</pre>}
                {i === 0 && keepServing && <p class="faint">{glued(keepServing)}</p>}
              </div>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

/** About says what was measured, and when. */
function About({ run: { info, said, live, now }, clock }: { run: Run; clock: Clock }) {
  const services = info?.services?.map((s) => `${s.namespace}/${s.name}`) ?? [];
  return (
    <p class="faint">
      <b>{measured(services, info?.urls ?? [])}</b>
      {" · "}{clock.day()} {clock.at(0, 0)} {clock.name}, {live ? `for ${duration(now)} now` : `took ${duration(info?.duration ?? 0)}`}
      {info?.cluster?.version && ` · Kubernetes ${info.cluster.version}`}
      {info?.cluster?.proxyMode && ` (${info.cluster.proxyMode})`}
      {!live && said && ` · ${glued(said.measured)}`}
      {info?.unsaved && <span class="strong"> · not all on disk: {info.unsaved}</span>}
    </p>
  );
}

/** measured names what the run was about; many Services are counted, and stand in a panel of their own. */
const measured = (services: string[], urls: string[]): string => [...(services.length > 3 ? [plural(services.length, "Service")] : services), ...urls].join(", ");

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

interface FiguresProps { verdict: Verdict; said: Said; run: Run; clock: Clock }

function Figures({ verdict: v, said, run, clock }: FiguresProps) {
  const ours = run.groupList;
  const worst = worstOf(run.judgedTargets);
  const little = said.tooLittle; // then the least is said, which was seen
  const longest = longestFailing(run.incidents);
  return (
    <dl class="figures">
      <Figure id="failed" name="Failed requests" bad={v.failed > 0} note={`of ${v.sent}`}>{v.failed}</Figure>
      <Figure id="downtime" name="Equals full outage of" worst={worst} bad={v.failed > 0} note={mostOf(v.downtime.total, "by the share that failed", !v.downtime.open && little)}>{uncertain(v.failed ? v.downtime.total : undefined, v, !!v.downtime.open || little)}</Figure>
      {longest && <Figure id="failed-for" name="Longest failed for" bad note={`${clock.at(longest.from)} to ${clock.at(longest.to)}`}>{duration(longest.to - longest.from)}</Figure>}
      <Figure id="error-rate" name="Error rate" worst={worst} bad={v.failed > 0} note="failed ÷ sent">{percent(v.errorRate)}</Figure>
      <Figure id="rate" name="Rate" note={`of ${sum(ours, (t) => t.rate)}/s asked for`}>{sum(ours, (t) => t.achievedRate)}/s</Figure>
      <Figure id="latency" name="Latency p99" worst={worst} note="from due">{v.latencyP99 === undefined ? "–" : duration(v.latencyP99)}</Figure>
      <Figure id="coverage" name="Coverage" worst={worst} note={v.validity.unobserved ? `${duration(v.validity.unobserved)} unobserved` : "nothing unobserved"}>{coverage(v.coverage)}</Figure>
      <Validity said={said} />
    </dl>
  );
}

const sum = (targets: TargetGroup[], of: (t: TargetGroup) => number): string => number(targets.reduce((all, t) => all + of(t), 0));

/** mostOf notes of a length of which the least is said how much it can be with all that was not observed. */
const mostOf = (l: Length | undefined, note: string, least: boolean): string => (l && least ? `at most ${atMost(l.max)}` : note);

/** A zero is an upper bound: what we could not have seen. */
const uncertain = (l: Length | undefined, v: Verdict, cut: boolean): string => (l ? length(l, cut) : `< ${atMost(v.detectionLimit)}`);

/** Figure is one of the header's figures. Worst says why it is only one target's. */
function Figure({ id, name, worst, note, bad, children }: { id: string; name: string; worst?: string; note?: string; bad?: boolean; children: ComponentChildren }) {
  return (
    <div class="figure" {...(worst && { title: worst })}>
      <dt>{name}</dt>
      <dd class={bad ? "bad" : ""} data-testid={id}>{children}</dd>
      <dd class="faint note">{note}{worst && ", the worst target's"}</dd>
    </div>
  );
}

/** Validity says how good the measurement itself was. */
function Validity({ said }: { said: Said }) {
  const valid = said.soundness === "valid";
  return (
    <Figure id="validity" name="Measurement" note={proberText(said)}>
      {valid ? "✓" : "!"} {said.soundness}
    </Figure>
  );
}

const outcomes = { pass: "✓", fail: "✗", undecided: "?" };

function Gates({ verdict: v, said }: { verdict: Verdict; said: Said }) {
  if (!v.gates.length && !said.reasons.length) return null;
  return (
    <div class="gates">
      {v.gates.map((g) => (
        <span key={g.expr} class={`gate ${g.proven}`} data-testid="gate" data-outcome={g.outcome} title={`Fails if ${g.expr}`}>
          <b aria-hidden="true">{outcomes[g.proven]}</b> fails if <code>{g.expr}</code>: {g.said}
        </span>
      ))}
      {said.reasons.map((r) => <span key={r} class="reason">{r}</span>)}
    </div>
  );
}
