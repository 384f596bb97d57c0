import { PROTOCOL, type Run } from "./run";

const fresh = 1_000; // ms for which a part of a run that goes on is not asked for again
const most = 64; // parts in one request

/**
 * fetchDetails asks the server for the parts of a run that are on the screen and not in the state, one request at a time, and again those
 * that failed. `take` is called with what changes the run, and `changed` after that. The returned function looks whether something is to be
 * asked for: call it when something is wanted, and when the state has changed.
 */
export function fetchDetails(run: Run, take: (change: () => void) => void, changed: () => void): () => void {
  let busy = false;
  let later = 0;
  const next = (): void => {
    if (busy) return;
    const parts = run.due(Date.now(), fresh).slice(0, most);
    if (!parts.length) return;
    busy = true;
    void ask(parts).then((entries) => () => run.details(parts, entries, Date.now()), (e) => () => run.failDetails(why(e), Date.now())).then((answer) => take(() => {
      busy = false;
      answer();
      changed();
      clearTimeout(later);
      later = window.setTimeout(next, !run.failed && run.due(Date.now(), fresh).length ? 0 : fresh);
    }));
  };
  return next;
}

async function ask(parts: string[]): Promise<Record<string, unknown>> {
  const query = new URLSearchParams(parts.map((p) => ["part", p]));
  const response = await fetch(`api/v1/details?${query}`, { cache: "no-store", signal: AbortSignal.timeout(12_000) });
  if (!response.ok) throw new Error(`the server answered ${response.status}: ${(await response.text()).trim().slice(0, 200)}`);
  const { protocol, entries } = await response.json();
  if (protocol !== PROTOCOL) throw new Error(`the server speaks protocol ${protocol}, this page ${PROTOCOL}: reload it`);
  return entries;
}

/** why says in words why a request failed. */
const why = (e: unknown): string => (e instanceof DOMException && e.name === "TimeoutError" ? "no answer in 12 s" : e instanceof Error ? e.message : String(e));
