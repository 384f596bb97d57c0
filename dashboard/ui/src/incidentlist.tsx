import type { Clock } from "./clock";
import { advice, begun, causeText, incidentDowntime, incidentErrors, incidentRequests, lasted, losses, mostHarmful, setAsideText, setOffBy, windowsOf } from "./incidents";
import type { Incident } from "./model";
import type { Run } from "./run";
import { Windows, type WindowActions } from "./windows";

interface IncidentsProps extends WindowActions { run: Run; clock: Clock; shown: ReadonlySet<number>; onShow: (id: number, show: boolean) => void }

/** Incidents tells what went wrong, the most harmful first, each once. Its windows, with their evidence, are the detail. */
export function Incidents({ run, clock, shown, onShow, ...actions }: IncidentsProps) {
  const incidents = mostHarmful(run.incidents);
  const loose = run.windows.filter((w) => !incidents.some((i) => i.windows.includes(w.id))); // not put together yet
  return (
    <section class="panel" aria-label="Incidents">
      <header class="panel-head"><h2>Incidents</h2><span class="faint">{run.windows.length || run.heldWindows.length ? "Select one to see its windows, and why" : run.live ? "None so far" : "None"}</span></header>
      {incidents.map((i) => (
        <Card key={i.id} incident={i} run={run} clock={clock} shown={shown.has(i.id)} onOpen={(open) => onShow(i.id, open)} {...actions} />
      ))}
      {loose.length > 0 && <Windows windows={loose} run={run} clock={clock} {...actions} />}
    </section>
  );
}

interface CardProps extends WindowActions { run: Run; clock: Clock; incident: Incident; shown: boolean; onOpen: (open: boolean) => void }

function Card({ incident: i, run, clock, shown, onOpen, ...actions }: CardProps) {
  const windows = windowsOf(i, [...run.windows, ...run.heldWindows]);
  return (
    <article class="incident" data-testid="incident" data-incident-id={i.id}>
      <div class="incident-head" onClick={() => onOpen(!shown)}>
        <button type="button" class="twist" aria-expanded={shown} aria-label={`Windows of incident ${i.id}`} onClick={(e) => { e.stopPropagation(); onOpen(!shown); }}>{shown ? "▾" : "▸"}</button>
        <b>{i.id}</b>
        <span class="mono" title={`between ${clock.bracket(i.start)}`}>{clock.began(windows.length === 1 ? begun(windows[0]!) : i.start)}</span>
        <span title="from the first window's start to the last one's end">{lasted(i, windows)}</span>
        <span class={i.failed || i.cut ? "bad strong" : "strong"}>{i.failed ? `downtime ${incidentDowntime(i, windows)}` : "no downtime"}</span>
        <span>{incidentRequests(i)}</span>
        <span>{incidentErrors(i)}</span>
        <span data-testid="set-off-by">set off by: <b>{setOffBy(i)}</b></span>
        {i.live && <span class="faint">not final</span>}
      </div>
      <dl class="incident-said">
        {i.targets.length > 1 ? <><dt>Lost</dt><dd>{losses(i, windows)}</dd></> : <><dt>Seen by</dt><dd>{i.targets[0]}</dd></>}
        {!!i.setAside && <><dt>Note</dt><dd>{setAsideText(i)}</dd></>}
        {i.open && <><dt>Note</dt><dd>an end of it was not observed</dd></>}
        {i.causes.map((c) => <><dt>Cause</dt><dd class="strong" data-testid="incident-cause">{causeText(c, windows, !!i.recurs)}</dd></>)}
        {advice(i).map((a) => <><dt>{a.label === "next" ? "Next" : "Fix"}</dt><dd class="fix" data-testid="incident-fix">{a.text}</dd></>)}
      </dl>
      {shown && <Windows windows={windows} run={run} clock={clock} {...actions} />}
    </article>
  );
}
