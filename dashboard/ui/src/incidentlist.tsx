import type { Clock } from "./clock";
import { glued } from "./format";
import type { Incident, Line, LineKind, Window } from "./model";
import type { Run } from "./run";
import { Windows, type WindowActions, begun } from "./windows";

/** mostHarmful sorts incidents by downtime, the longest first, as the terminal does. */
const mostHarmful = (incidents: Incident[]): Incident[] =>
  [...incidents].sort((a, b) => b.downtime.max - a.downtime.max || b.failed - a.failed || (b.cut ?? 0) - (a.cut ?? 0) || (b.slow ?? 0) - (a.slow ?? 0));

/** windowsOf are the windows of an incident. */
const windowsOf = (incident: Incident, windows: Window[]): Window[] => windows.filter((w) => incident.windows.includes(w.id));

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
  const { said } = i;
  return (
    <article class="incident" data-testid="incident" data-incident-id={i.id}>
      <div class="incident-head" onClick={() => onOpen(!shown)}>
        <button type="button" class="twist" aria-expanded={shown} aria-label={`Windows of incident ${i.id}`} onClick={(e) => { e.stopPropagation(); onOpen(!shown); }}>{shown ? "▾" : "▸"}</button>
        <b>{i.id}</b>
        <span class="mono" title={`between ${clock.bracket(i.start)}`}>{clock.began(windows.length === 1 ? begun(windows[0]!) : i.start)}</span>
        <span title="from the first window's start to the last one's end">{glued(said.lasted)}</span>
        <span class={i.failed || i.cut ? "bad strong" : "strong"}>{i.failed ? `downtime ${glued(said.downtime)}` : "no downtime"}</span>
        <span>{glued(said.requests)}</span>
        <span>{said.errors}</span>
        <span data-testid="set-off-by">set off by: <b>{said.setOffBy}</b></span>
        {i.live && <span class="faint">not final</span>}
      </div>
      <dl class="incident-said">
        {i.targets.length > 1 ? <><dt>Lost</dt><dd>{losses(i)}</dd></> : <><dt>Seen by</dt><dd>{i.targets[0]}</dd></>}
        {linesShown(said.lines).map(({ kind, text }) => <><dt>{labels[kind]}</dt><dd class={looks[kind]} data-testid={`incident-${kind}`}>{glued(text)}</dd></>)}
      </dl>
      {shown && <Windows windows={windows} run={run} clock={clock} {...actions} />}
    </article>
  );
}

/** labels are of the lines that the list below an incident has; what was lost is in one, and what is live in the head. */
const labels: Partial<Record<LineKind, string>> = { error: "Note", edge: "Note", "no-evidence": "Note", cause: "Cause", fix: "Fix", next: "Next" };

const looks: Partial<Record<LineKind, string>> = { cause: "strong", fix: "fix", next: "fix" };

const maxNotes = 4;

/** linesShown are an incident's lines below its head. Of errors and edges, of which it may have many, only the first are. */
function linesShown(lines: Line[]): Line[] {
  const many = lines.filter((l) => l.kind === "error" || l.kind === "edge");
  const kept = many.length > maxNotes + 1 ? [...many.slice(0, maxNotes), { ...many[maxNotes]!, text: `and ${many.length - maxNotes} more` }] : many;
  return [...kept, ...lines.filter((l) => labels[l.kind] && !many.includes(l))];
}

/** losses says what the targets lost, the one that lost most first. */
function losses({ said, targets }: Incident): string {
  const lost = said.lines.filter((l) => l.kind === "lost");
  const more = targets.length - lost.length;
  return [...lost.map((l) => `${l.target} ${glued(l.text)}`), ...(more ? [`and ${more} more`] : [])].join(", ");
}
