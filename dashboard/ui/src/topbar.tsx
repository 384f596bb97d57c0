import type { Clock } from "./clock";
import { duration } from "./format";
import { useClock } from "./hooks";
import { nextTheme, type Preferences } from "./prefs";
import type { Run } from "./run";
import type { Connection } from "./stream";

interface TopBarProps {
  run: Run;
  connection: Connection;
  clock: Clock;
  prefs: Preferences;
  onPrefs: (p: Preferences) => void;
  onHelp: () => void;
}

export const themeNames = { system: "◐ System", light: "○ Light", dark: "● Dark" };

/** TopBar says what is shown, whether it goes on, and whether data still comes. */
export function TopBar({ run, connection, clock, prefs, onPrefs, onHelp }: TopBarProps) {
  return (
    <header class="topbar">
      <h1 class="brand">Lapse</h1>
      <span class="faint run-id">{run.info?.id}</span>
      {run.loaded && <span class={run.live ? "badge live" : "badge"} data-testid="live" data-live={run.live}>{run.live ? `● live ${duration(run.now)}` : "■ ended"}</span>}
      <ConnectionBadge connection={connection} live={run.live} clock={clock} />
      <span class="spacer" />
      <span class="tools">
        <button type="button" data-testid="zone" title="Times in UTC or in your own zone (u)" onClick={() => onPrefs({ ...prefs, zone: prefs.zone === "utc" ? "local" : "utc" })}>{prefs.zone === "utc" ? "UTC" : `Local (${clock.name})`}</button>
        <button type="button" data-testid="theme" title="Light, dark, or as the system (t)" onClick={() => onPrefs({ ...prefs, theme: nextTheme(prefs.theme) })}>{themeNames[prefs.theme]}</button>
        <a class="button" href={connection.phase === "saved" ? connection.download : "timeline.json"} download="timeline.json" data-testid="download">timeline.json</a>
        <button type="button" data-testid="help-button" title="Keys and legend (?)" aria-label="Help" onClick={onHelp}>?</button>
      </span>
      <span class="faint">{run.tool && `${run.tool.name} ${run.tool.version}`}</span>
    </header>
  );
}

function ConnectionBadge({ connection: c, live, clock }: { connection: Connection; live: boolean; clock: Clock }) {
  const now = useClock(c.phase === "disconnected" || (c.phase === "connected" && !!c.missed));
  return <span class={`badge connection ${c.phase}`} role="status" data-testid="connection" data-phase={c.phase}>{connectionText(c, now, live, clock)}</span>;
}

const remembered = 30_000; // ms for which a gap is still told of

function connectionText(c: Connection, now: number, live: boolean, clock: Clock): string {
  switch (c.phase) {
    case "loading": return "connecting";
    case "saved": return "saved report";
    case "refused": return c.reason;
    case "connected":
      if (!c.missed || now - c.missed.to > remembered) return "connected";
      return `connected again after ${duration((c.missed.to - c.missed.from) * 1e6)}, ${c.missed.resumed ? "nothing is missing" : "to another run"}`;
    case "disconnected": {
      const ago = Math.max(0, Math.round((now - c.since) / 1000));
      const at = clock.at((c.since - clock.t0) * 1e6, 0);
      return `! disconnected since ${at} ${clock.name} (${ago} s)${live ? ": what you see is as it was then" : ""}, reconnecting`;
    }
  }
}
