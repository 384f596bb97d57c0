import { classCounts, length, percent, plural } from "./format";
import { open, windowDowntime, windowLength } from "./headline";
import type { Incident, IncidentCause, Instant, Window } from "./model";

// What the page says of an incident, in the words of report/incidents_section.go: a test holds the two together.

/** mostHarmful sorts incidents by downtime, the longest first. */
export const mostHarmful = (incidents: Incident[]): Incident[] =>
  [...incidents].sort((a, b) => b.downtime.max - a.downtime.max || b.failed - a.failed || (b.cut ?? 0) - (a.cut ?? 0) || (b.slow ?? 0) - (a.slow ?? 0));

/** begun is when a window began: of requests cut in flight, when they were cut. */
export const begun = (w: Window): Instant => w.cut ?? w.start;

/** windowsOf are the windows of an incident. */
export const windowsOf = (incident: Incident, windows: Window[]): Window[] => windows.filter((w) => incident.windows.includes(w.id));

/** lasted is from when the first window began to when the last one ended. */
export function lasted(incident: Incident, windows: Window[]): string {
  if (windows.length === 1) return windowLength(windows[0]!);
  const { start, end } = incident;
  const text = length({ min: Math.max(0, end.earliest - start.latest), max: end.latest - start.earliest }, !!incident.open);
  return incident.recurs ? `${incident.recurs.times} times in ${text}` : `${text} in ${plural(incident.windows.length, "window")}`;
}

/** incidentDowntime is the worst target's. */
export function incidentDowntime(incident: Incident, windows: Window[]): string {
  if (!incident.failed) return incident.slow ? "none, slow" : "no request";
  return windows.length === 1 ? windowDowntime(windows[0]!) : length(incident.downtime, !!incident.open);
}

/** incidentRequests says how many requests failed or were slow of those that an incident is about. */
export function incidentRequests({ failed, slow, sent, cut }: Incident): string {
  const parts: string[] = [];
  if (failed) parts.push(`${failed}/${sent} failed  ${percent(failed / Math.max(1, sent))}`);
  if (slow || (!failed && !cut)) parts.push(`${slow ?? 0}/${sent} slow`);
  if (cut) parts.push(`${plural(cut, "connection")} cut`);
  return parts.join(", ");
}

/** classList names the classes of failures, the most frequent first. How many there are of a single one stands beside it. */
export function classList(classes: Record<string, number>): string {
  const names = Object.keys(classes);
  return names.length === 1 ? names[0]! : classCounts(classes);
}

export const incidentErrors = ({ failed, slow, cut, classes }: Incident): string => (failed ? classList(classes) : slow || !cut ? "answered late" : "cut");

/** setOffBy says what set an incident off. */
export const setOffBy = (incident: Incident): string => incident.triggers.map((t) => t.text).join("; ") || "not known";

/** losses says what each target lost, the one that lost most first. */
export function losses(incident: Incident, windows: Window[]): string {
  return incident.targets.map((target) => {
    const own = windows.filter((w) => w.target === target);
    const sum = (of: (w: Window) => number) => own.reduce((all, w) => all + of(w), 0);
    const cut = sum((w) => (w.kind === "cut" ? w.failed : 0));
    if (cut) {
      const held = own.find((w) => w.kind === "cut")!.sent;
      return cut <= held ? `${target} ${cut}/${held} connections` : `${target} ${plural(cut, "connection")}`;
    }
    const failed = sum((w) => w.failed);
    if (!failed) return `${target} nothing (${sum((w) => w.slow ?? 0)}/${sum((w) => w.sent)} slow)`;
    return `${target} ${length({ min: sum((w) => w.downtime.min), max: sum((w) => w.downtime.max) }, own.some(open))} (${failed}/${sum((w) => w.sent)} failed)`;
  }).join(", ");
}

/** setAsideText says how many requests failed amid an incident that are no evidence; nothing if there is none. */
export function setAsideText({ setAside }: Incident): string {
  if (!setAside) return "";
  const [are, they, them] = setAside === 1 ? ["was", "it", "it"] : ["were", "they", "them"];
  return `${plural(setAside, "request")} more ${are} set aside: the prober stood still while ${they} waited, or had no socket for ${them}`;
}

/** causeText is a cause with how sure it is, and of how many windows: its text tells of the one where it was measured best. */
export function causeText(cause: IncidentCause, windows: Window[], recurs: boolean): string {
  const text = `${cause.rule} (${cause.confidence} confidence): ${cause.text}`;
  const n = cause.windows.length;
  if (n < 2) return text;
  if (cause.rule === "unexplained" && recurs) return text;
  if (cause.rule === "unexplained") return `${text}; ${n} windows are unexplained`;
  const others: Record<string, number> = {};
  for (const w of windows) {
    const confidence = w.causes?.[0]?.confidence;
    if (cause.windows.includes(w.id) && confidence && confidence !== cause.confidence) others[confidence] = (others[confidence] ?? 0) + 1;
  }
  const less = Object.keys(others).sort().map((c) => `, ${others[c]} of them with ${c} confidence`);
  return `${text}; the best measured of ${n} windows with this cause${less.join("")}`;
}

/** Advice is what to change, or, where no rule explains the failures, what to look at next. */
export interface Advice { label: "fix" | "next"; text: string }

/** advice is what an incident's causes advise, each text once. */
export function advice(incident: Incident): Advice[] {
  const all: Advice[] = [];
  for (const { rule, fix: text } of incident.causes) {
    if (text && !all.some((a) => a.text === text)) all.push({ label: rule === "unexplained" ? "next" : "fix", text });
  }
  return all;
}
