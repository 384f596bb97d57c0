import type { Run } from "./run";

/** NotCovered lists what a pass of the run says nothing of, each sentence once with the Services that it is about. */
export function NotCovered({ run: { info } }: { run: Run }) {
  const services = info?.services ?? [];
  const sentences = new Map<string, string[]>();
  for (const s of services) for (const text of s.notCovered ?? []) sentences.set(text, [...(sentences.get(text) ?? []), `${s.namespace}/${s.name}`]);
  if (!sentences.size) return null;
  return (
    <section class="panel" aria-label="Not covered" data-testid="not-covered">
      <header class="panel-head"><h2>Not covered</h2><span class="faint">by a pass of this run</span></header>
      <ul class="sentences">{[...sentences].map(([text, of]) => <li key={text}>{services.length > 1 && <b>{[...new Set(of)].sort().join(", ")}: </b>}{text}</li>)}</ul>
    </section>
  );
}
