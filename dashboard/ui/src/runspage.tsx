import { useEffect, useMemo, useState } from "preact/hooks";
import { glued, plural } from "./format";
import { useClock, useTheme } from "./hooks";
import { keepPreferences, nextTheme, readPreferences } from "./prefs";
import { RunList } from "./runlist";
import { ago, answer, type Filter, filterOf, found, type GuardNow, hashOf, type Now, type Runs, timeText, type Watched, whatToDo } from "./runs";
import { ServiceDaysTable, Standing } from "./servicedays";
import { themeNames } from "./topbar";
import { TrendTable } from "./trendtable";

const every = 2000; // ms between two looks
const patience = 8000; // ms for an answer

/** Look is what the server last told, and since when it does not answer. */
interface Look { runs?: Runs; now?: Now; at: number; away?: { since: number; why: string } }

/** useServer asks the server how things stand, and for the runs when they changed. */
function useServer(): Look {
  const [look, setLook] = useState<Look>({ at: Date.now() });
  useEffect(() => {
    let [timer, ended] = [0, false];
    let last: Look = { at: Date.now() };
    const ask = async (): Promise<void> => {
      try {
        const now = await fetched<Now>("api/v1/now");
        const runs = last.runs?.version === now.version ? last.runs : await fetched<Runs>("api/v1/runs");
        last = { runs, now, at: Date.now() };
      } catch (e) {
        last = { ...last, away: last.away ?? { since: last.at, why: e instanceof Error ? e.message : String(e) } };
      }
      if (ended) return;
      setLook(last);
      timer = window.setTimeout(() => void ask(), every);
    };
    void ask();
    return () => { ended = true; clearTimeout(timer); };
  }, []);
  return look;
}

async function fetched<T>(path: string): Promise<T> {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(patience) });
  if (!response.ok) throw new Error(`it answered ${response.status}`);
  return response.json();
}

/** useFilter keeps what is chosen in the address, so that it can be reloaded, sent and gone back from. */
function useFilter(): [Filter, (f: Filter) => void] {
  const [filter, setFilter] = useState(() => filterOf(location.hash));
  useEffect(() => {
    const changed = () => setFilter(filterOf(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return [filter, (f) => { location.hash = hashOf(f); }];
}

/** RunsPage shows many runs: what was dropped lately, how the guard and its Services stand, their days, the trend and the list. */
export function RunsPage() {
  const { runs, now, away } = useServer();
  const [filter, setFilter] = useFilter();
  const [prefs, setPrefs] = useState(readPreferences);
  useTheme(prefs.theme);
  const clock = useClock(true);
  const guard = now?.guard;
  useEffect(() => { document.title = `Lapse: ${runs ? plural(runs.runs.length, "run") : "runs"}`; }, [runs?.runs.length]);
  return (
    <>
      <header class="topbar">
        <h1 class="brand">Lapse</h1>
        {runs && <span class="faint">{guard ? "guard, " : ""}{plural(runs.runs.length, "run")}</span>}
        <span class={`badge connection ${away ? "disconnected" : "connected"}`} role="status" data-testid="connection" data-phase={away ? "disconnected" : "connected"}>
          {away ? `! ${guard ? "the guard" : "the server"} has not answered since ${clockText(away.since)} UTC (${ago(new Date(away.since).toISOString(), clock)}; ${away.why})${runs ? ": what you see is as it was then" : ""}` : runs ? "connected" : "connecting"}
        </span>
        <span class="spacer" />
        <button type="button" data-testid="theme" title="Light, dark, or as the system" onClick={() => { const p = { ...prefs, theme: nextTheme(prefs.theme) }; keepPreferences(p); setPrefs(p); }}>{themeNames[prefs.theme]}</button>
      </header>
      <main>
        {runs && now ? <Shown runs={runs} guard={guard} clock={clock} filter={filter} onFilter={setFilter} /> : <p class="empty" data-testid="empty">{away ? "Nothing was received." : "Loading the runs."}</p>}
      </main>
    </>
  );
}

const clockText = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

interface ShownProps { runs: Runs; guard: GuardNow | undefined; clock: number; filter: Filter; onFilter: (f: Filter) => void }

function Shown({ runs, guard, clock, filter, onFilter }: ShownProps) {
  const minute = Math.floor(clock / 60_000);
  const said = useMemo(() => answer(runs.runs, runs.days, guard, clock), [runs, guard, minute]);
  const going = guard?.services?.flatMap((s) => s.run ?? []).join() ?? "";
  const list = useMemo(() => <RunList runs={runs.runs} older={runs.older ?? 0} days={runs.days} filter={filter} going={going.split(",")} onFilter={onFilter} />, [runs, filter, going]);
  return (
    <>
      <AnswerCard said={said} guard={guard} clock={clock} />
      <ServiceDaysTable days={runs.days} guard={guard} clock={clock} filter={filter} onFilter={onFilter} />
      <TrendTable trend={runs.trend} service={filter.service} />
      {list}
    </>
  );
}

const runAt = (name: string): string => `run/${encodeURIComponent(name)}/`;

/** active are the Services of which something is to be told now. */
const active = (guard: GuardNow | undefined): Watched[] => (guard?.services ?? []).filter((s) => s.state !== "idle");

/** AnswerCard says whether something was dropped, where, and what to do; and what goes on. */
function AnswerCard({ said, guard, clock }: { said: ReturnType<typeof answer>; guard: GuardNow | undefined; clock: number }) {
  const shown = said.worst.slice(0, 3);
  const going = active(guard);
  const drops = going.filter((s) => s.failed);
  const now = (all: Watched[]) => all.length > 0 && <><dt>Now</dt><dd data-testid="answer-now">{all.slice(0, 5).map((s) => <p key={s.name}><b>{s.name}</b> <Standing of={s} clock={clock} /> {s.about && <span class="faint">{s.about}</span>} {s.run && s.failed ? <a href={runAt(s.run)}>the run so far</a> : ""}</p>)}{all.length > 5 && <p>{plural(all.length - 5, "other Service")} below</p>}</dd></>;
  return (
    <section class={`panel verdict ${said.style}`} data-testid="answer" data-result={said.style} aria-label="What was dropped">
      <div class="verdict-line">
        <div class="result" data-testid="answer-word">{said.word}</div>
        <p class="sentence">{said.headline}{said.over && <span class="faint"> {said.over}</span>}</p>
      </div>
      <dl class="answer of-services">
        {now(drops)}
        {shown.map(({ run, page, others }) => (
          <>
            <dt class="name">{run.services?.join(", ") || "Run"}</dt>
            <dd data-testid="answer-where">
              <p>{page ? <a href={runAt(page.name)}>{timeText(run.began!)} UTC</a> : <b>{timeText(run.began!)} UTC</b>} <span class="faint">({ago(run.began!, clock)} ago)</span> {glued([run.setOff, found(run)].filter(Boolean).join(" · "))}{others > 0 && <span class="faint">; {plural(others, "other run")}</span>}</p>
              {whatToDo(run) && <p><b>Do</b> {glued(whatToDo(run))}</p>}
            </dd>
          </>
        ))}
        {said.worst.length > shown.length && <><dt>More</dt><dd>{plural(said.worst.length - shown.length, "other Service")} below</dd></>}
        {now(going.filter((s) => !s.failed))}
        {guard && guard.speaks !== "this" && <><dt>Guard</dt><dd data-testid="answer-guard">{guard.speaks === "other" ? "Another guard leads: its verdicts are told. These are what this one measured." : "No guard leads: each measures, and nothing is told until one leads."}</dd></>}
        {guard?.problems?.map((p) => <><dt>Wrong</dt><dd class="strong" data-testid="answer-problem">{p}</dd></>)}
      </dl>
    </section>
  );
}
