import { plural } from "./format";
import type { Miss, ScoredPrediction } from "./model";
import type { Run } from "./run";

/** Predictions tells what preflight predicted before the run, with what the run says of it. */
export function Predictions({ run: { scorecard: card, info } }: { run: Run }) {
  if (!card) return null;
  const unjudged = [...new Set(card.unjudged.map((u) => `${u.rule ?? `svc/${u.service}`}: ${u.why}`))];
  const of = (service: string) => ((info?.services?.length ?? 0) > 1 ? ` of svc/${service}` : "");
  return (
    <section class="panel" aria-label="Preflight" data-testid="preflight">
      <header class="panel-head"><h2>Preflight</h2><span class="faint" data-testid="scorecard">{card.said}</span></header>
      {card.predictions.length + card.misses.length > 0 && <dl class="predictions">
        {card.predictions.map((p) => <Prediction scored={p} of={of(p.service)} />)}
        {card.misses.map((m) => <Missed miss={m} of={of(m.service)} />)}
      </dl>}
      {card.unjudged.length > 0 && (
        <details class="note faint" data-testid="not-judged"><summary>Not judged: {plural(unjudged.length, "rule")}</summary>
          <ul class="sentences">{unjudged.map((text) => <li key={text}>{text}</li>)}</ul>
        </details>
      )}
    </section>
  );
}

function Prediction({ scored: { prediction: p, outcome, why }, of }: { scored: ScoredPrediction; of: string }) {
  return (
    <>
      <dt>{p.rule} {p.name}{of}{p.node && ` ${p.node}`}</dt>
      <dd>
        <span class={outcome === "not-tested" ? "faint" : "strong"}>{outcome.replace("-", " ")}</span>: {why}
        <div class="faint">{p.severity}: {p.text}{p.accepted && ` (accepted: ${p.accepted})`}</div>
      </dd>
    </>
  );
}

function Missed({ miss: { cause, incident, why }, of }: { miss: Miss; of: string }) {
  return <><dt>{cause.split("/")[0]}{of}</dt><dd><span class="strong">missed</span>: incident {incident}: {why}</dd></>;
}
