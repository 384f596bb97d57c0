import type { Clock } from "./clock";
import { type Moment, happened } from "./evidence";
import { glued } from "./format";
import type { Incident, Line, LineKind, Window } from "./model";
import { failing, mostHarmful } from "./opening";
import type { Run } from "./run";
import { Evidence, Windows, type WindowActions } from "./windows";

/** windowsOf are the windows of an incident. */
const windowsOf = (incident: Incident, windows: Window[]): Window[] => windows.filter((w) => incident.windows.includes(w.id));

interface IncidentsProps extends WindowActions { run: Run; clock: Clock; shown: ReadonlySet<number>; chosen: number | undefined; main: Incident | undefined; steps: Moment[]; onShow: (incident: Incident, show: boolean) => void }

/** Incidents tells what went wrong, the most harmful first, each once. Its windows, with their evidence, are the detail. */
export function Incidents({ run, clock, shown, chosen, main, steps, onShow, ...actions }: IncidentsProps) {
  const incidents = mostHarmful(run.incidents);
  const loose = run.allWindows.filter((w) => !incidents.some((i) => i.windows.includes(w.id))); // not put together yet
  return (
    <section class="panel" aria-label="Incidents">
      <header class="panel-head"><h2>Incidents</h2><span class="faint">{run.allWindows.length ? "Select one to see it on the timeline, and why" : run.live ? "None so far" : "None"}</span></header>
      {incidents.map((i, n) => (
        <Card key={i.id} incident={i} run={run} clock={clock} answered={n === 0} chosen={chosen === i.id} steps={i === main ? steps : happened(i)} shown={shown.has(i.id)} onOpen={(open) => onShow(i, open)} {...actions} />
      ))}
      {loose.length > 0 && <Windows windows={loose} run={run} clock={clock} fixes {...actions} />}
    </section>
  );
}

interface CardProps extends WindowActions { run: Run; clock: Clock; incident: Incident; answered: boolean /* the answer above says why, and what to do */; chosen: boolean; steps: Moment[]; shown: boolean; onOpen: (open: boolean) => void }

function Card({ incident: i, run, clock, answered, chosen, steps, shown, onOpen, ...actions }: CardProps) {
  const windows = windowsOf(i, run.allWindows);
  const { said } = i;
  return (
    <article class={chosen ? "incident selected" : "incident"} aria-current={chosen || undefined} data-testid="incident" data-incident-id={i.id}>
      <div class="incident-head" onClick={() => onOpen(!shown)}>
        <button type="button" class="twist" aria-expanded={shown} aria-label={`Windows of incident ${i.id}`} onClick={(e) => { e.stopPropagation(); onOpen(!shown); }}>{shown ? "▾" : "▸"}</button>
        <b>{i.id}</b>
        <span data-testid="incident-when">{glued(said.when)}</span>
        {i.live && <span class="faint">not final</span>}
      </div>
      <dl class="incident-said">
        {!answered && <><dt>What</dt><dd data-testid="incident-what">{said.what.map((w) => <p key={w.of}><b>{w.of}</b> {glued(w.text)}</p>)}</dd></>}
        {linesShown(said.lines).filter((l) => !answered || !answers.includes(l.kind)).map(({ kind, text }) => <><dt>{labels[kind]}</dt><dd class={looks[kind]} data-testid={`incident-${kind}`}>{glued(text)}</dd></>)}
      </dl>
      {shown && steps.length > 0 && <div class="happened"><Evidence moments={steps} zero={failing(i).from} clock={clock} onEvent={actions.onEvent} /></div>}
      {shown && <Windows windows={windows} run={run} clock={clock} {...actions} />}
    </article>
  );
}

/** labels are of the lines that the list below an incident has. */
const labels: Partial<Record<LineKind, string>> = { error: "Note", edge: "Note", "no-evidence": "Note", cause: "Cause", fix: "Fix", next: "Next" };

const looks: Partial<Record<LineKind, string>> = { cause: "strong", fix: "fix", next: "fix" };

const answers: LineKind[] = ["cause", "fix", "next"];

const maxNotes = 4;

/** linesShown are an incident's lines below its head. Of errors and edges, of which it may have many, only the first are. */
function linesShown(lines: Line[]): Line[] {
  const many = lines.filter((l) => l.kind === "error" || l.kind === "edge");
  const kept = many.length > maxNotes + 1 ? [...many.slice(0, maxNotes), { ...many[maxNotes]!, text: `and ${many.length - maxNotes} more` }] : many;
  return [...kept, ...lines.filter((l) => labels[l.kind] && !many.includes(l))];
}
