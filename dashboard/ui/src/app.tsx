import { useEffect, useState } from "preact/hooks";
import { EventLog } from "./events";
import { duration } from "./format";
import { Header } from "./header";
import type { Window } from "./model";
import type { Run } from "./run";
import { around, type Range } from "./scale";
import type { Connection } from "./stream";
import { Timeline } from "./timeline";
import { Windows } from "./windows";

/** App is the page: a view on the run, and what the reader chose to look at. */
export function App({ run, connection }: { run: Run; connection: Connection }) {
  const [view, setView] = useState<Range>();
  const [toggled, setToggled] = useState<ReadonlyMap<number, boolean>>(new Map());
  const [focused, setFocused] = useState<number>();
  const [filter, setFilter] = useState("");
  useTitle(run);

  const opened = new Set(run.windows.filter((w, i) => toggled.get(w.id) ?? i === 0).map((w) => w.id));
  const toggle = (id: number, open = !opened.has(id)) => setToggled(new Map(toggled).set(id, open));
  const zoom = (w: Window) => setView(around(w.start.earliest, w.end.latest));
  const select = (w: Window) => {
    zoom(w);
    toggle(w.id, true);
    setFocused(w.id);
  };
  return (
    <>
      <TopBar run={run} connection={connection} />
      {run.loaded ? (
        <main>
          <Header run={run} />
          <Timeline run={run} view={view} onView={setView} onWindow={select} />
          <Windows run={run} opened={opened} focused={focused} onToggle={toggle} onZoom={zoom} />
          <EventLog run={run} filter={filter} onFilter={setFilter} />
        </main>
      ) : (
        <main><p class="empty" data-testid="empty">{connection.phase === "connected" ? "Waiting for the run to begin." : "Loading the run."}</p></main>
      )}
    </>
  );
}

/** TopBar says what is shown, whether it goes on, and whether we still hear of it. */
function TopBar({ run, connection }: { run: Run; connection: Connection }) {
  return (
    <header class="topbar">
      <span class="brand">Lapse</span>
      <span class="faint run-id">{run.info?.id}</span>
      {run.loaded && <span class={run.live ? "badge live" : "badge"} data-testid="live" data-live={run.live}>{run.live ? `● live ${duration(run.now)}` : "■ ended"}</span>}
      <ConnectionBadge connection={connection} live={run.live} />
      <span class="spacer" />
      <a href="timeline.json" download>timeline.json</a>
      <span class="faint">{run.tool && `${run.tool.name} ${run.tool.version}`}</span>
    </header>
  );
}

function ConnectionBadge({ connection: c, live }: { connection: Connection; live: boolean }) {
  const now = useClock(c.phase === "disconnected");
  const text = {
    loading: () => "connecting",
    connected: () => "connected",
    refused: () => (c.phase === "refused" ? c.reason : ""),
    disconnected: () => (c.phase === "disconnected" ? disconnected(c.since, now, live) : ""),
  }[c.phase]();
  return <span class={`badge connection ${c.phase}`} role="status" data-testid="connection" data-phase={c.phase}>{text}</span>;
}

function disconnected(since: number, now: number, live: boolean): string {
  const at = new Date(since).toISOString().slice(11, 19);
  const ago = Math.max(0, Math.round((now - since) / 1000));
  return `! disconnected since ${at} UTC (${ago} s)${live ? ": what you see is as it was then" : ""}, reconnecting`;
}

/** useClock ticks once a second while it is wanted. */
function useClock(wanted: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!wanted) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [wanted]);
  return now;
}

const titles = { pass: "✓ pass", fail: "✗ fail", inconclusive: "? inconclusive", ungated: "○" };

/** useTitle puts the verdict on the browser's tab. */
function useTitle(run: Run): void {
  const service = run.info?.services?.[0]?.name ?? "";
  const result = run.verdict ? (titles[run.verdict.result] ?? "") : "";
  const title = ["Lapse", service, result].filter(Boolean).join(" ");
  useEffect(() => { document.title = title; }, [title]);
}
