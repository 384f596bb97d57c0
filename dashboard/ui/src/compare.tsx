import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Since } from "./clock";
import { Cursor } from "./cursor";
import { duration, glued, percent } from "./format";
import { resultOf } from "./header";
import { useTheme } from "./hooks";
import type { Ns } from "./model";
import { longestFailing, mostHarmful, opening } from "./opening";
import { readPreferences } from "./prefs";
import { PROTOCOL, Run } from "./run";
import { type Range, wholeRun } from "./scale";
import { Timeline } from "./timeline";

/** comparedNames are the runs that the address names, as in ?compare=before,after; none if it does not. */
export function comparedNames(search: string): string[] {
  const names = new URLSearchParams(search).get("compare")?.split(",") ?? [];
  return names.length === 2 ? names : [];
}

/** originOf is the instant of a run that compared runs have in common: the beginning of its command, or of the run. */
const originOf = (run: Run): Ns => run.info?.command?.start ?? 0;

const moved = ({ from, to }: Range, by: Ns): Range => ({ from: from + by, to: to + by });

/** both is the range that holds two. */
export const both = (a: Range, b: Range): Range => ({ from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) });

/** Compare shows two runs one below the other, with one axis that counts from the beginning of each one's command. */
export function Compare({ names }: { names: string[] }) {
  const [runs, setRuns] = useState<Run[]>();
  const [why, setWhy] = useState("");
  const [chosen, setChosen] = useState<Range>(); // since the commands began
  const theme = useTheme(readPreferences().theme);
  useEffect(() => {
    Promise.all(names.map(fetchRun)).then(setRuns, (e) => setWhy(String(e)));
    document.title = `Lapse: ${names.join(" and ")}`;
  }, []);
  const shared = useMemo(() => (runs ? runs.map((r) => ({ whole: moved(wholeRun(r.now, false), -originOf(r)), first: moved(opening(r.incidents, wholeRun(r.now, false)), -originOf(r)), failed: r.incidents.length > 0 })) : []), [runs]);
  if (!runs || shared.length < 2) return <main><p class="empty" data-testid="empty">{why || "Loading two runs."}</p></main>;
  const [a, b] = [shared[0]!, shared[1]!];
  const whole = both(a.whole, b.whole);
  const range = chosen ?? (a.failed && b.failed ? both(a.first, b.first) : a.failed ? a.first : b.failed ? b.first : whole);
  return (
    <>
      <header class="topbar"><h1 class="brand">Lapse</h1><span class="faint">two runs, each from the beginning of its command on</span></header>
      <main>
        <Differences runs={runs} names={names} />
        {runs.map((run, i) => <Compared key={names[i]} name={names[i]!} run={run} range={range} whole={whole} theme={theme} onRange={(r) => setChosen(r ?? whole)} />)}
      </main>
    </>
  );
}

/** fetchRun is a run as its page's server has it. */
async function fetchRun(name: string): Promise<Run> {
  const response = await fetch(`run/${encodeURIComponent(name)}/api/v1/snapshot`, { cache: "no-store" });
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}: ${await response.text()}`);
  const { protocol, epoch, seq, entries } = await response.json();
  if (protocol !== PROTOCOL) throw new Error(`the server speaks protocol ${protocol}, this page ${PROTOCOL}: reload it`);
  const run = new Run();
  run.apply({ protocol, epoch, seq, reset: true, put: entries });
  return run;
}

interface ComparedProps { name: string; run: Run; range: Range; whole: Range; theme: ReturnType<typeof useTheme>; onRange: (range: Range | undefined) => void }

/** Compared is the timeline of one of two runs. */
function Compared({ name, run, range, whole, theme, onRange }: ComparedProps) {
  const origin = originOf(run);
  const clock = useMemo(() => new Since(run.t0, origin), [run]);
  const cursor = useRef<Cursor>(undefined);
  cursor.current ??= new Cursor();
  return (
    <Timeline
      run={run} name={name} brief view={{}} range={moved(range, origin)} whole={moved(whole, origin)} steps={[]} disconnected={undefined} theme={theme} clock={clock} cursor={cursor.current}
      onRange={(r) => onRange(r && moved(r, -origin))} onMeasure={() => {}} onWindow={(w) => onRange(moved({ from: w.start.earliest - 1e9, to: w.end.latest + 1e9 }, -origin))} onEvent={() => {}}
    />
  );
}

/** Differences has the figures of two runs side by side. */
function Differences({ runs, names }: { runs: Run[]; names: string[] }) {
  const rows: [string, (run: Run) => string][] = [
    ["Verdict", (r) => `${resultOf(r).symbol} ${resultOf(r).word}`],
    ["Failed requests", (r) => `${r.verdict?.failed ?? 0} of ${r.verdict?.sent ?? 0} (${percent((r.verdict?.failed ?? 0) / Math.max(r.verdict?.sent ?? 0, 1))})`],
    ["Longest failed for", (r) => longest(r)],
    ["Which is", (r) => glued(r.said?.extent ?? "")],
    ["Connections cut", (r) => String(r.held.reduce((n, h) => n + h.cut, 0))],
    ["Cause", (r) => mostHarmful(r.incidents)[0]?.causes[0]?.rule ?? "–"],
    ["What was found", (r) => glued(r.said?.headline ?? "")],
  ];
  return (
    <section class="panel" aria-label="Differences" data-testid="differences">
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Differences, as a table">
        <table class="services">
          <thead><tr><th scope="col"><span class="unseen">Figure</span></th>{names.map((n) => <th scope="col" key={n}><a href={`run/${encodeURIComponent(n)}/`}>{n}</a></th>)}</tr></thead>
          <tbody>{rows.map(([what, of]) => <tr key={what}><th scope="row">{what}</th>{runs.map((r, i) => <td key={names[i]}>{of(r)}</td>)}</tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}

function longest(run: Run): string {
  const at = longestFailing(run.incidents);
  return at ? duration(at.to - at.from) : "none";
}
