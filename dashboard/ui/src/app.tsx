import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Clock } from "./clock";
import { Cursor } from "./cursor";
import { EventLog } from "./events";
import { happened } from "./evidence";
import { plural } from "./format";
import { step } from "./gesture";
import { Header, resultOf } from "./header";
import { HeldConnections } from "./held";
import { Help } from "./help";
import { useClock, useTheme } from "./hooks";
import { Incidents } from "./incidentlist";
import { KeepServingPanel } from "./keepservingpanel";
import { type Key, press } from "./keys";
import { useView } from "./location";
import type { Event, Incident, Window } from "./model";
import { NotCovered } from "./notcovered";
import { eventRange, failing, incidentRange, mostHarmful, opening, windowRange } from "./opening";
import { Predictions } from "./predictions";
import { keepPreferences, nextTheme, type Preferences, readPreferences } from "./prefs";
import { Routes } from "./routetable";
import type { Run } from "./run";
import { around, inside, ordered, pan, type Range, wholeRun, zoom } from "./scale";
import { Services } from "./services";
import type { Connection } from "./stream";
import { Timeline } from "./timeline";
import { TopBar } from "./topbar";
import type { View } from "./view";

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
  const watched = useWatched(run);
  const chosen = run.allWindows.find((w) => w.id === view.window);
  const main = inFocus(run, view, chosen);
  const range = view.range ?? (view.whole ? whole : chosen ? windowRange(chosen, whole) : watched ? whole : opening(main ? [main] : [], whole));
  const setRange = (range: Range | undefined) => {
    step();
    setView((v) => ({ ...v, range, whole: !range }));
  };
  const toggle = (id: number, open: boolean) => setToggled((t) => new Map(t).set(id, open));
  const select = (w: Window) => {
    setView((v) => ({ ...v, window: w.id, incident: undefined, event: undefined, range: windowRange(w, whole), whole: false }));
    toggle(w.id, true);
  };
  const selectEvent = (e: Event) => setView((v) => ({ ...v, event: e.id, range: eventRange(e, whole), whole: false }));
  const first = run.incidents.length ? undefined : run.windows[0]?.id;
  useTimelineInView(run.loaded ? view.window ?? view.incident : undefined);
  const opened = new Set(run.allWindows.filter((w) => toggled.get(w.id) ?? w.id === (view.window ?? first)).map((w) => w.id));
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
  const keepServing = useMemo(() => <KeepServingPanel run={run} />, [run.keepServing, run.incidents]);
  const shown = new Set(run.incidents.filter((i) => shownByHand.get(i.id) ?? i.id === main?.id).map((i) => i.id));
  const show = (i: Incident, open: boolean) => {
    setShownByHand((t) => new Map(main ? [[main.id, true], ...t] : t).set(i.id, open)); // what was shown stays
    if (open) setView((v) => ({ ...v, incident: i.id, window: undefined, event: undefined, range: incidentRange(i, whole), whole: false }));
  };
  const steps = useMemo(() => happened(main), [main]);
  const openKey = [[...opened].join(), [...shown].join()].join(";");
  const incidents = useMemo(
    () => <Incidents run={run} clock={clock} shown={shown} chosen={view.incident} onShow={show} opened={opened} focused={view.window} main={main} steps={steps} onToggle={toggle} onZoom={select} onEvent={selectEvent} />,
    [run.version, clock, openKey, view.window, view.incident, main, whole.to],
  );
  const log = useMemo(
    () => <EventLog run={run} clock={clock} filter={view.filter ?? ""} selected={view.event} begins={main && failing(main).from - 1e9} onFilter={(filter) => setView((v) => ({ ...v, filter }))} onSelect={selectEvent} />,
    [run.version, clock, view.filter, view.event, main, whole.to],
  );
  const routes = useMemo(
    () => <Routes run={run} clock={clock} onMoment={(between) => setRange(inside(around(between.earliest, between.latest), whole))} />,
    [run.routes, run.late, run.unobserved, clock, whole.to],
  );
  return (
    <>
      <TopBar run={run} connection={connection} clock={clock} prefs={prefs} onPrefs={setPrefs} onHelp={() => setHelping(true)} />
      {run.loaded ? (
        <main>
          {header}
          <div class="side-by-side">
            <Timeline
              run={run} view={view} range={range} whole={whole} steps={steps} disconnected={disconnected} theme={theme} clock={clock} cursor={cursor.current}
              onRange={setRange} onMeasure={(measure) => setView((v) => ({ ...v, measure }))} onWindow={select} onEvent={selectEvent}
            />
            <div class="explanation">{incidents}</div>
          </div>
          {keepServing}
          {held}
          {routes}
          <NotCovered run={run} />
          {log}
        </main>
      ) : (
        <main><p class="empty" data-testid="empty">{connection.phase === "connected" ? "Waiting for the run to begin." : connection.phase === "refused" ? connection.reason : "Loading the run."}</p></main>
      )}
      {helping && <Help keys={keys} theme={theme} onClose={() => setHelping(false)} />}
    </>
  );
}

/** inFocus is the incident that the page explains: what the reader chose, or else the most harmful. */
function inFocus({ incidents }: Run, { incident }: View, window: Window | undefined): Incident | undefined {
  return incidents.find((i) => (window ? i.windows.includes(window.id) : i.id === incident)) ?? mostHarmful(incidents)[0];
}

/** useWatched reports whether the run was going on when the page opened: then the axis stays where it is when it ends. */
function useWatched(run: Run): boolean {
  const watched = useRef<boolean>(undefined);
  if (run.loaded) watched.current ??= run.live;
  return watched.current ?? false;
}

const enough = 360; // px of the rows that have to be in view
const rowAbove = 60; // px of the list above the selected row

/** useTimelineInView scrolls to the timeline when another window or incident is chosen, unless it is in view. */
function useTimelineInView(chosen: number | undefined): void {
  useEffect(() => {
    const plots = document.querySelector('[data-testid="plots"]');
    if (chosen === undefined || !plots) return;
    const { top } = plots.getBoundingClientRect();
    if (top < 0 || top + enough > innerHeight) plots.closest("section")?.scrollIntoView({ block: "start" });
    const pane = document.querySelector(".explanation");
    const row = pane?.querySelector(".window-row.selected");
    if (pane && row && pane.scrollHeight > pane.clientHeight) pane.scrollTop += row.getBoundingClientRect().top - pane.getBoundingClientRect().top - rowAbove;
  }, [chosen]);
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
    { keys: ["y"], shown: "y", text: "copy the answer as Markdown", run: () => clickOn("copy-markdown") },
    { keys: ["c"], shown: "c", text: "copy the link to what is shown", run: () => clickOn("copy-link") },
    { keys: ["/"], shown: "/", text: "filter the events", run: () => document.querySelector<HTMLElement>('[data-testid="event-filter"]')?.focus() },
    { keys: ["u"], shown: "u", text: "times in UTC or in your own zone", run: c.onZone },
    { keys: ["t"], shown: "t", text: "light, dark, or as the system", run: c.onTheme },
    { keys: ["?"], shown: "?", text: "this help", run: c.onHelp },
  ];
}

const clickOn = (testid: string): void => document.querySelector<HTMLElement>(`[data-testid="${testid}"]`)?.click();

/** stepWindow selects the window before or after the selected one; with none selected, the nearest on that side of what is in view. */
function stepWindow({ run: { allWindows: windows }, window, range, select }: Controls, by: 1 | -1): void {
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

/** useTitle puts the verdict on the browser's tab. */
function useTitle(run: Run): void {
  const services = run.info?.services ?? [];
  const { symbol, word } = resultOf(run);
  const title = ["Lapse", services.length > 1 ? plural(services.length, "Service") : services[0]?.name, run.verdict && `${symbol} ${word.toLowerCase()}`].filter(Boolean).join(" ");
  useEffect(() => { document.title = title; }, [title]);
}
