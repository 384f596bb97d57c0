import { useRef, useState } from "preact/hooks";
import { Fold } from "./fold";
import { plural } from "./format";
import { ago, type Day, dayText, type Filter, type GuardNow, lately, type Outcome, type ServiceDays, type Watched } from "./runs";

interface ServiceDaysProps { days: ServiceDays[]; guard: GuardNow | undefined; clock: number; filter: Filter; onFilter: (f: Filter) => void }

/** Row is a Service, how it stands where a guard measures it, and what its days showed. */
interface Row { service: string; watched?: Watched; days: Day[] }

/** ServiceDaysTable has a strip of days for each Service. A click on a day, or on a name, filters the list to it. */
export function ServiceDaysTable({ days, guard, clock, filter, onFilter }: ServiceDaysProps) {
  const rows = rowsOf(days, guard);
  const dates = rows.find((r) => r.days.length)?.days.map((d) => d.date) ?? [];
  const [at, setAt] = useState({ service: "", date: "" }); // the day that Tab comes to
  const [said, setSaid] = useState("");
  const table = useRef<HTMLTableElement>(null);
  if (!rows.length) return null;
  const bad = rows.filter((r) => (r.watched && r.watched.state !== "idle") || r.days.slice(-7).some((d) => d.dropped || d.gateFailed) || lately(r.days).some((d) => d.outcome === "unmeasured"));
  const move = (shown: Row[], row: number, date: number): void => {
    const to = shown[Math.max(0, Math.min(row, shown.length - 1))]!;
    const day = to.days[Math.max(0, Math.min(date, dates.length - 1))];
    if (!day) return;
    setAt({ service: to.service, date: day.date });
    const buttons = [...(table.current?.querySelectorAll<HTMLButtonElement>("button.day") ?? [])];
    buttons.find((b) => b.dataset["service"] === to.service && b.dataset["date"] === day.date)?.focus();
  };
  const keyed = (e: KeyboardEvent, shown: Row[], row: number, date: number): void => {
    const by: Record<string, [number, number]> = { ArrowLeft: [row, date - 1], ArrowRight: [row, date + 1], ArrowUp: [row - 1, date], ArrowDown: [row + 1, date], Home: [row, 0], End: [row, dates.length - 1] };
    const to = by[e.key];
    if (!to || e.ctrlKey || e.altKey || e.metaKey) return;
    e.preventDefault();
    move(shown, ...to);
  };
  return (
    <section class="panel" aria-label="Services" data-testid="services">
      <header class="panel-head">
        <h2>{guard ? "Guarded Services" : "Services"}</h2>
        <span class="faint">day by day (UTC)</span>
        <ul class="legend" aria-label="Legend">
          {legend.map(([outcome, text]) => <li key={outcome}><span class={`day ${look(outcome)}`} />{text}</li>)}
        </ul>
      </header>
      <Fold all={rows} chosen={bad.length ? bad : rows.slice(0, 3)} others={(n) => plural(n, "other Service")} only={bad.length ? "those with something to look at" : "the first"} testid="all-services">
        {(shown) => {
          const tabbed = shown.some((r) => r.service === at.service) ? at : { service: shown.find((r) => r.days.length)?.service, date: dates.at(-1) };
          return (
            <table class="service-days" ref={table} role="table">
              <thead role="rowgroup"><tr role="row">
                <th role="columnheader" scope="col">Service</th>
                {guard && <th role="columnheader" scope="col">State</th>}
                <th role="columnheader" scope="col"><span class="unseen">Days</span><span class="strip" aria-hidden="true">{dates.map((d) => <span class="day-number" key={d}>{Number(d.slice(8))}</span>)}</span></th>
              </tr></thead>
              <tbody role="rowgroup">
                {shown.map((r, row) => (
                  <tr role="row" key={r.service} data-testid="service" data-service={r.service}>
                    <th role="rowheader" scope="row"><button type="button" class="plain" aria-pressed={filter.service === r.service} title={r.watched?.about} onClick={() => onFilter(filter.service === r.service ? {} : { service: r.service })}>{r.service}</button></th>
                    {guard && <td role="cell" data-testid="watched">{r.watched ? <Standing of={r.watched} clock={clock} /> : <span class="faint">no longer guarded</span>}</td>}
                    <td role="cell"><div class="strip" role="group" aria-label={`${r.service}, day by day`}>
                      {r.days.map((d, date) => {
                        const text = dayText(d, guarded(days));
                        const selected = filter.day === d.date && (!filter.service || filter.service === r.service);
                        return (
                          <button
                            type="button" key={d.date} class={`day ${look(d.outcome)} ${selected ? "selected" : ""}`}
                            data-service={r.service} data-date={d.date} data-outcome={d.outcome} aria-label={`${r.service}, ${text}`} title={text} aria-pressed={selected}
                            tabIndex={tabbed.service === r.service && tabbed.date === d.date ? 0 : -1}
                            onClick={() => { setAt({ service: r.service, date: d.date }); onFilter(selected ? {} : { service: r.service, day: d.date }); }}
                            onKeyDown={(e) => keyed(e, shown, row, date)}
                            onFocus={() => { setAt({ service: r.service, date: d.date }); setSaid(`${r.service}, ${text}`); }} onPointerEnter={() => setSaid(`${r.service}, ${text}`)}
                          />
                        );
                      })}
                    </div></td>
                  </tr>
                ))}
              </tbody>
            </table>
          );
        }}
      </Fold>
      <p class="note faint day-said" data-testid="day-said" aria-hidden="true">{said || "Point at a day, or go there with the arrow keys: a click lists its runs."}</p>
    </section>
  );
}

const legend: [Outcome, string][] = [["dropped", "dropped"], ["gateFailed", "a gate failed"], ["unmeasured", "not measured"], ["passed", "passed"], ["nothing", "nothing happened"]];

/** look is what a day looks like. */
const look = (o: Outcome): string => ({ dropped: "fail", gateFailed: "fail gate-only", unmeasured: "hatched", passed: "pass", nothing: "quiet" })[o];

/** guarded tells whether a guard has noted what it observed. */
const guarded = (all: ServiceDays[]): boolean => all.some((s) => s.days.some((d) => d.observed > 0));

/** rowsOf joins what a guard measures now with the days of what it measured; by name. */
function rowsOf(days: ServiceDays[], guard: GuardNow | undefined): Row[] {
  const rows = new Map<string, Row>(days.map((d) => [d.service, { service: d.service, days: d.days }]));
  for (const w of guard?.services ?? []) rows.set(w.name, { service: w.name, days: [], ...rows.get(w.name), watched: w });
  return [...rows.values()].sort((a, b) => a.service.localeCompare(b.service));
}

/** Standing is a Service's state, since when, and the figures of the run that goes on. */
export function Standing({ of: { state, since, run, sent, failed }, clock }: { of: Watched; clock: number }) {
  const figures = run && sent !== undefined ? `, ${failed ?? 0} of ${sent} failed` : "";
  return <span class="standing" data-state={state}>{state === "idle" ? "" : "● "}{state}<span class="faint"> for {ago(since, clock)}</span>{figures && <span class={failed ? "bad" : ""}>{figures}</span>}</span>;
}
