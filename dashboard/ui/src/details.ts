import { PROTOCOL, type Run } from "./run";

const fresh = 1_000; // ms for which a part of a run that goes on is not asked for again
const most = 64; // parts in one request

/**
 * fetchDetails asks the server for the parts of a run that are on the screen and not in the state, one request at a time. The returned
 * function looks whether something is to be asked for: call it when something is wanted, and when the state has changed.
 */
export function fetchDetails(run: Run, changed: () => void): () => void {
  let busy = false;
  let later = 0;
  const next = (): void => {
    if (busy) return;
    const parts = run.due(Date.now(), fresh).slice(0, most);
    if (!parts.length) return;
    busy = true;
    void ask(parts).catch(() => undefined).then((entries) => {
      busy = false;
      if (entries) {
        run.details(parts, entries, Date.now());
        changed();
      }
      clearTimeout(later);
      later = window.setTimeout(next, entries && run.due(Date.now(), fresh).length ? 0 : fresh);
    });
  };
  return next;
}

async function ask(parts: string[]): Promise<Record<string, unknown>> {
  const query = new URLSearchParams(parts.map((p) => ["part", p]));
  const response = await fetch(`api/v1/details?${query}`, { cache: "no-store", signal: AbortSignal.timeout(12_000) });
  if (!response.ok) throw new Error(`details: ${response.status}`);
  const { protocol, entries } = await response.json();
  if (protocol !== PROTOCOL) throw new Error(`details of protocol ${protocol}`);
  return entries;
}
