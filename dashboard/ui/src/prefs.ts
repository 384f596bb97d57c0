import type { Zone } from "./clock";

/** What a reader likes, whatever run is shown: it stays in the browser. */
export interface Preferences { theme: "system" | "light" | "dark"; zone: Zone }

const key = "lapse";
const themes = ["system", "light", "dark"] as const;

/** readPreferences takes what was kept, and defaults where nothing was or storage is forbidden. */
export function readPreferences(): Preferences {
  let kept: Partial<Preferences> = {};
  try {
    kept = JSON.parse(localStorage.getItem(key) ?? "{}");
  } catch { /* a page from a file may have no storage */ }
  return { theme: themes.find((t) => t === kept.theme) ?? "system", zone: kept.zone === "local" ? "local" : "utc" };
}

export function keepPreferences(p: Preferences): void {
  try {
    localStorage.setItem(key, JSON.stringify(p));
  } catch { /* then they last as long as the page */ }
}

/** nextTheme goes round: as the system, light, dark. */
export const nextTheme = (theme: Preferences["theme"]): Preferences["theme"] => themes[(themes.indexOf(theme) + 1) % themes.length]!;
