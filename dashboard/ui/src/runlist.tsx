import { useEffect, useMemo, useState } from "preact/hooks";
import { glued, plural } from "./format";
import { chosen, comparable, comparedFrom, earlier, type Filter, type Listed, newestFirst, type Outcome, outcomeText, type ServiceDays, short, ticked, timeText } from "./runs";

const page = 50; // runs that are shown at first, and with each click more

interface RunListProps { runs: Listed[]; older: number /* runs that are not listed */; days: ServiceDays[]; filter: Filter; going: string[] /* the runs that go on */; onFilter: (f: Filter) => void }

/** RunList lists runs, the newest first. Two that are ticked can be compared. */
export function RunList({ runs, older, days, filter, going, onFilter }: RunListProps) {
  const newest = useMemo(() => newestFirst(runs), [runs]);
  const listed = useMemo(() => chosen(newest, filter), [newest, filter]);
  const before = useMemo(() => earlier(newest), [newest]);
  const [most, setMost] = useState(page);
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => setMost(page), [filter]);
  const services = useMemo(() => [...new Set([...runs.flatMap((r) => r.services ?? []), ...days.map((d) => d.service)])].sort(), [runs, days]);
  const compare = comparedFrom(runs, names);
  const of = (f: Filter) => onFilter(Object.fromEntries(Object.entries({ ...filter, ...f }).filter(([, v]) => v)));
  return (
    <section class="panel run-list" aria-label="Runs" data-testid="runs">
      <header class="panel-head">
        <h2>Runs</h2>
        <span class="faint" role="status" data-testid="run-count">{listed.length === runs.length ? plural(runs.length, "run") : `${listed.length} of ${plural(runs.length, "run")}`}, the newest first</span>
        <span class="filters">
          <select aria-label="Service" data-testid="filter-service" value={filter.service ?? ""} onChange={(e) => of({ service: e.currentTarget.value })}>
            <option value="">all Services</option>
            {services.map((s) => <option key={s} value={s}>{s}</option>)}
          </select>
          <select aria-label="Verdict" data-testid="filter-outcome" value={filter.outcome ?? ""} onChange={(e) => of({ outcome: e.currentTarget.value as Outcome })}>
            <option value="">all verdicts</option>
            {(["dropped", "gateFailed", "unmeasured", "passed"] as const).map((o) => <option key={o} value={o}>{outcomeText(o)}</option>)}
          </select>
          {filter.day && <button type="button" data-testid="filter-day" title="Show all days" onClick={() => of({ day: "" })}>{filter.day} ✕</button>}
          {(filter.service || filter.outcome) && <button type="button" data-testid="filter-none" onClick={() => onFilter({})}>Show all</button>}
        </span>
      </header>
      <table class="services runs" role="table">
        <thead role="rowgroup"><tr role="row">
          {["Compare", "Verdict", "Began (UTC)", "Service", "Set off by", "Release", "Failed", "Down", "Cause"].map((c) => <th key={c} role="columnheader" scope="col" class={c === "Failed" ? "num" : ""}>{c}</th>)}
        </tr></thead>
        <tbody role="rowgroup">
          {listed.slice(0, most).map((r) => <RunRow key={r.name} run={r} goes={going.includes(r.name)} ticked={names.includes(r.name)} before={before.get(r)} onTick={() => setNames(ticked(names, r.name))} />)}
        </tbody>
      </table>
      {listed.length === 0 && <p class="note faint" data-testid="no-runs">No run is like that.</p>}
      {listed.length > most && <p class="note"><button type="button" data-testid="more-runs" onClick={() => setMost(most + page)}>Show {Math.min(page, listed.length - most)} more of {listed.length - most}</button></p>}
      {listed.some((r) => r.gone) && <p class="note faint" data-testid="gone">Gone: of such a run only this line is left. Its recording was deleted to make room, or went with its Pod.{older > 0 && ` ${plural(older, "older run")} of this kind ${older === 1 ? "is" : "are"} not listed, but in the trend.`}</p>}
      {listed.some((r) => r.again) && <p class="note faint" data-testid="again">Again: two guards measured one disruption. The run that lost most counts, the other one does not.</p>}
      {names.length > 0 && (
        <p class="note compare-bar" role="status" data-testid="compare-bar">
          {compare ? <a class="button strong" data-testid="compare" href={compare}>Compare the two runs</a> : "One run is ticked: tick another one to compare them."}{" "}
          <button type="button" onClick={() => setNames([])}>Untick</button>
        </p>
      )}
    </section>
  );
}

interface RunRowProps { run: Listed; goes: boolean; ticked: boolean; before: Listed | undefined; onTick: () => void }

function RunRow({ run, goes, ticked, before, onTick }: RunRowProps) {
  const began = run.began ? timeText(run.began) : run.name;
  const about = [run.name, run.headline].filter(Boolean).join(": ");
  const release = run.release?.map(short).join(" → ");
  return (
    <tr role="row" data-testid="run" data-run={run.name} class={ticked ? "selected" : ""}>
      <td role="cell" class="tick">
        {run.gone ? <span class="faint">gone</span> : <input type="checkbox" aria-label={`Compare the run of ${began}`} checked={ticked} disabled={!comparable(run) || goes} onChange={onTick} />}
        {before && <a href={`?${new URLSearchParams({ compare: `${before.name},${run.name}` })}`} aria-label={`Compare the run of ${began} with the one before`} title="with the one before of this Service">before</a>}
      </td>
      <td role="cell" class={run.result ?? ""}>{goes ? "● goes on" : run.word}{run.again && <span class="faint" title={`The same disruption as ${run.again}, which counts`}> again</span>}</td>
      <th role="rowheader" scope="row">{run.gone ? <span title={about}>{began}</span> : <a href={`run/${encodeURIComponent(run.name)}/`} title={about}>{began}</a>}</th>
      <td role="cell">{run.services?.join(", ")}</td>
      <td role="cell">{run.setOff}</td>
      <td role="cell" class="mono" title={run.release?.join(" → ")}>{release}</td>
      <td role="cell" class="num">{run.sent > 0 && <>{run.failed} / {run.sent}</>}</td>
      <td role="cell" class="down">{run.down && glued(run.down)}</td>
      <td role="cell" class="cause">{run.cause ?? (run.result !== "pass" && run.headline && glued(run.headline))}</td>
    </tr>
  );
}
