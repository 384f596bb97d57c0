import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Clock } from "./clock";
import { Cursor } from "./cursor";
import { EventLog } from "./events";
import { step } from "./gesture";
import { Header } from "./header";
import { HeldConnections } from "./held";
import { Help } from "./help";
import { Incidents } from "./incidentlist";
import { useClock, useTheme } from "./hooks";
import { KeepServingPanel } from "./keepservingpanel";
import { type Key, press } from "./keys";
import { useView } from "./location";
import type { Event, Window } from "./model";
import { Predictions } from "./predictions";
import { Routes } from "./routetable";
import { keepPreferences, nextTheme, type Preferences, readPreferences } from "./prefs";
import { place, type Run } from "./run";
import { around, ordered, pan, type Range, wholeRun, within, zoom } from "./scale";
import { Services } from "./services";
import type { Connection } from "./stream";
import { Timeline } from "./timeline";
import { TopBar } from "./topbar";

/** App is the page: a view on the run, and what the reader chose to look at. */
export function App({ run, connection }: { run: Run; connection: Connection }) {
  const [prefs, setPrefs] = usePreferences();
  const [view, setView] = useView();
  const [toggled, setToggled] = useState<ReadonlyMap<number, boolean>>(new Map());
  const [shownByHand, setShownByHand] = useState<ReadonlyMap<number, boolean>>(new Map()); // incidents
  const [helping, setHelping] = useState(false);
  const cursor = useRef<Cursor>(undefined);
  cursor.current ??= new Cursor();
  const theme = useTheme(prefs.theme);
  const clock = useMemo(() => new Clock(run.t0, prefs.zone), [run.t0, prefs.zone]);
  useTitle(run);

  const disconnected = useDisconnected(run, connection);
  const whole = wholeRun(disconnected?.to ?? run.now, run.live);
  const range = view.range ?? whole;
  const setRange = (range: Range | undefined) => {
    step();
    setView((v) => ({ ...v, range }));
  };
  const toggle = (id: number, open: boolean) => setToggled((t) => new Map(t).set(id, open));
  const select = (w: Window) => {
    setView((v) => ({ ...v, window: w.id, event: undefined, range: within(around(w.start.earliest, w.end.latest), whole) }));
    toggle(w.id, true);
  };
  const selectEvent = (e: Event) => setView((v) => ({ ...v, event: e.id, range: within(around(e.at?.earliest ?? e.seen, place(e)), whole) }));
  const firsts = new Set(run.incidents.length ? run.incidents.map((i) => i.windows[0]) : run.windows.slice(0, 1).map((w) => w.id));
  const opened = new Set(run.windows.filter((w) => toggled.get(w.id) ?? (w.id === view.window || (view.window === undefined && firsts.has(w.id)))).map((w) => w.id));
  const keys = keyTable({
    run, range, whole, cursor: cursor.current, window: view.window, setRange, select,
    measure: (measure) => setView((v) => ({ ...v, measure })), measured: view.measure,
    onTheme: () => setPrefs({ ...prefs, theme: nextTheme(prefs.theme) }),
    onZone: () => setPrefs({ ...prefs, zone: prefs.zone === "utc" ? "local" : "utc" }),
    onHelp: () => setHelping(true),
  });
  useKeys(keys);

  const header = useMemo(() => <><Header run={run} clock={clock} /><Services run={run} /></>, [run, run.version, clock]);
  const held = useMemo(() => <><HeldConnections run={run} clock={clock} /><Predictions run={run} /></>, [run, run.version, clock]);
  const keepServing = useMemo(() => <KeepServingPanel run={run} />, [run.keepServing]);
  const shown = new Set(run.incidents.filter((i) => shownByHand.get(i.id) ?? (view.window !== undefined && i.windows.includes(view.window))).map((i) => i.id));
  const show = (id: number, open: boolean) => setShownByHand((t) => new Map(t).set(id, open));
  const openKey = [[...opened].join(), [...shown].join()].join(";");
  const incidents = useMemo(
    () => <Incidents run={run} clock={clock} shown={shown} onShow={show} opened={opened} focused={view.window} onToggle={toggle} onZoom={select} onEvent={selectEvent} />,
    [run.version, clock, openKey, view.window, whole.to],
  );
  const log = useMemo(
    () => <EventLog run={run} clock={clock} filter={view.filter ?? ""} selected={view.event} onFilter={(filter) => setView((v) => ({ ...v, filter }))} onSelect={selectEvent} />,
    [run.version, clock, view.filter, view.event, whole.to],
  );
  const routes = useMemo(
    () => <Routes run={run} clock={clock} onMoment={(between) => setRange(within(around(between.earliest, between.latest), whole))} />,
    [run.routes, run.late, run.unobserved, clock, whole.to],
  );
  return (
    <>
      <TopBar run={run} connection={connection} clock={clock} prefs={prefs} onPrefs={setPrefs} onHelp={() => setHelping(true)} />
      {run.loaded ? (
        <main>
          {header}
          {incidents}
          {held}
          <Timeline
            run={run} view={view} whole={whole} disconnected={disconnected} theme={theme} clock={clock} cursor={cursor.current}
            onRange={setRange} onMeasure={(measure) => setView((v) => ({ ...v, measure }))} onWindow={select} onEvent={selectEvent}
          />
          {routes}
          {keepServing}
          {log}
        </main>
      ) : (
        <main><p class="empty" data-testid="empty">{connection.phase === "connected" ? "Waiting for the run to begin." : connection.phase === "refused" ? connection.reason : "Loading the run."}</p></main>
      )}
      {helping && <Help keys={keys} theme={theme} onClose={() => setHelping(false)} />}
    </>
  );
}

interface Controls {
  run: Run;
  range: Range;
  whole: Range;
  cursor: Cursor;
  window: number | undefined;
  measured: Range | undefined;
  setRange: (range: Range | undefined) => void;
  select: (w: Window) => void;
  measure: (stretch: Range | undefined) => void;
  onTheme: () => void;
  onZone: () => void;
  onHelp: () => void;
}

/** keyTable is all that the keyboard does; the help shows the same table. */
function keyTable(c: Controls): Key[] {
  const middle = c.cursor.at ?? (c.range.from + c.range.to) / 2;
  const step = (share: number) => c.cursor.moveTo(Math.min(Math.max((c.cursor.at ?? middle) + (c.range.to - c.range.from) * share, c.range.from), c.range.to));
  const measure = () => {
    const at = c.cursor.at ?? middle;
    const from = c.cursor.mark;
    c.cursor.markAt(from === undefined ? at : undefined);
    if (from !== undefined && from !== at) c.measure(ordered(from, at));
  };
  const clear = () => {
    c.cursor.markAt(undefined);
    if (c.measured) c.measure(undefined);
    else c.setRange(undefined);
  };
  return [
    { keys: ["["], shown: "[", text: "the window before", run: () => stepWindow(c, -1) },
    { keys: ["]"], shown: "]", text: "the next window", run: () => stepWindow(c, 1) },
    { keys: ["+", "="], shown: "+", text: "zoom in about the cursor", run: () => c.setRange(zoom(c.range, 0.5, middle, c.whole)) },
    { keys: ["-", "_"], shown: "-", text: "zoom out", run: () => c.setRange(zoom(c.range, 2, middle, c.whole)) },
    { keys: ["ArrowLeft"], shown: "←", text: "pan to earlier", run: () => c.setRange(pan(c.range, -0.1, c.whole)) },
    { keys: ["ArrowRight"], shown: "→", text: "pan to later", run: () => c.setRange(pan(c.range, 0.1, c.whole)) },
    { keys: ["Shift+ArrowLeft"], shown: "Shift ←", text: "a screen earlier", run: () => c.setRange(pan(c.range, -1, c.whole)) },
    { keys: ["Shift+ArrowRight"], shown: "Shift →", text: "a screen later", run: () => c.setRange(pan(c.range, 1, c.whole)) },
    { keys: [","], shown: ",", text: "cursor a little to the left", run: () => step(-0.002) },
    { keys: ["."], shown: ".", text: "cursor a little to the right", run: () => step(0.002) },
    { keys: ["<"], shown: "<", text: "cursor to the left", run: () => step(-0.05) },
    { keys: [">"], shown: ">", text: "cursor to the right", run: () => step(0.05) },
    { keys: ["m"], shown: "m", text: "measure: press at two places of the cursor", run: measure },
    { keys: ["0", "Escape"], shown: "0 Esc", text: "clear the measurement, then show the whole run", run: clear },
    { keys: ["/"], shown: "/", text: "filter the events", run: () => document.querySelector<HTMLElement>('[data-testid="event-filter"]')?.focus() },
    { keys: ["u"], shown: "u", text: "times in UTC or in your own zone", run: c.onZone },
    { keys: ["t"], shown: "t", text: "light, dark, or as the system", run: c.onTheme },
    { keys: ["?"], shown: "?", text: "this help", run: c.onHelp },
  ];
}

/** stepWindow selects the window before or after the selected one; with none selected, the nearest on that side of what is in view. */
function stepWindow({ run: { windows }, window, range, select }: Controls, by: 1 | -1): void {
  const at = windows.findIndex((w) => w.id === window);
  const middle = (range.from + range.to) / 2;
  const next = at >= 0 ? windows[at + by] : by > 0 ? (windows.find((w) => w.start.latest >= middle) ?? windows[0]) : (windows.findLast((w) => w.start.latest < middle) ?? windows.at(-1));
  if (next) select(next);
}

/** useKeys lets the keyboard work on the whole page. */
function useKeys(table: Key[]): void {
  const latest = useRef(table);
  useLayoutEffect(() => { latest.current = table; });
  useLayoutEffect(() => { // before the page is seen
    const down = (e: KeyboardEvent) => void press(e, latest.current);
    addEventListener("keydown", down);
    return () => removeEventListener("keydown", down);
  }, []);
}

function usePreferences(): [Preferences, (p: Preferences) => void] {
  const [prefs, set] = useState(readPreferences);
  return [prefs, (p) => { keepPreferences(p); set(p); }];
}

/** useDisconnected is the time since the connection broke, while the run goes on without us hearing of it. */
function useDisconnected(run: Run, connection: Connection): Range | undefined {
  const broken = run.live && connection.phase === "disconnected";
  const now = useClock(broken);
  if (!broken || connection.phase !== "disconnected") return undefined;
  return { from: run.now, to: run.now + Math.max(0, now - connection.since) * 1e6 };
}

const titles = { pass: "✓ pass", fail: "✗ fail", inconclusive: "? inconclusive", ungated: "○" };

/** useTitle puts the verdict on the browser's tab. */
function useTitle(run: Run): void {
  const service = run.info?.services?.[0]?.name ?? "";
  const result = run.verdict ? (titles[run.verdict.result] ?? "") : "";
  const title = ["Lapse", service, result].filter(Boolean).join(" ");
  useEffect(() => { document.title = title; }, [title]);
}
