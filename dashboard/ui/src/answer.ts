import type { Clock } from "./clock";
import { duration, glued, percent } from "./format";
import type { Incident, Line, Window } from "./model";
import { failing, mostHarmful } from "./opening";
import type { Run } from "./run";

/** An Answer is what a reader wants to know first of the most harmful incident. */
export interface Answer { when: string; where: string; why: Line[]; fix: Line[]; more: number }

/** answerOf is the answer of a run; none if nothing failed. */
export function answerOf(run: Run, clock: Clock): Answer | undefined {
  const [first, ...others] = mostHarmful(run.incidents);
  if (!first) return undefined;
  const lines = (...kinds: Line["kind"][]): Line[] => first.said.lines.filter((l) => kinds.includes(l.kind));
  return { when: whenOf(first, run, clock), where: whereOf(first, run), why: lines("cause"), fix: lines("fix", "next"), more: others.length };
}

/** whenOf says from when to when requests of an incident failed, how long after the command began, and what set it off. */
export function whenOf(incident: Incident, { info }: Run, clock: Clock): string {
  const { from, to } = failing(incident);
  const span = to > from ? `${clock.at(from, 1)} to ${clock.at(to, 1)} ${clock.name} (${duration(to - from)})` : `${clock.at(from, 1)} ${clock.name}`;
  const start = info?.command?.start;
  const after = start === undefined || from < start ? "" : `, ${duration(from - start)} after the command began`;
  return `${span}${after}; set off by: ${incident.said.setOffBy}`;
}

const kindNames: Record<string, string> = { new: "new connections", reused: "reused connections", held: "held connections" };

/** whereOf says which requests of an incident failed, and from which nodes. */
export function whereOf(incident: Incident, run: Run): string {
  const windows = run.allWindows.filter((w) => incident.windows.includes(w.id));
  const targets = new Map(run.targets.map((t) => [t.name, t]));
  const services = run.info?.services?.length ?? 0;
  const losses = new Map<string, { lost: number; sent: number; slow: boolean }>();
  for (const w of windows) {
    const target = targets.get(w.target);
    const kind = target && kindNames[target.kind];
    const name = kind ? (services > 1 && target.service ? `${target.service}, ${kind}` : kind) : w.target;
    const sum = losses.get(name) ?? { lost: 0, sent: 0, slow: w.kind === "slow" };
    losses.set(name, { lost: sum.lost + lostIn(w), sent: sum.sent + w.sent, slow: sum.slow && w.kind === "slow" });
  }
  const parts = [...losses].sort(([, a], [, b]) => b.lost - a.lost).map(([name, l]) => `${name} ${l.lost} of ${l.sent} ${l.slow ? "slow" : `(${percent(l.lost / Math.max(l.sent, 1))})`}`);
  const shown = parts.slice(0, most).concat(parts.length > most ? [`and ${parts.length - most} more`] : []).join(" · ");
  return [nodesText(windows.map((w) => targets.get(w.target)?.node), [...targets.values()].map((t) => t.node)), shown].filter(Boolean).join(": ");
}

const most = 3;

const lostIn = (w: Window): number => (w.kind === "slow" ? (w.slow ?? 0) : w.failed);

/** nodesText says from which of several nodes requests failed; empty if all come from one place. */
function nodesText(failed: (string | undefined)[], all: (string | undefined)[]): string {
  const [some, every] = [failed, all].map((names) => [...new Set(names.filter((n) => n !== undefined))].sort()) as [string[], string[]];
  if (every.length < 2 || !some.length) return "";
  if (some.length === every.length) return `from all ${every.length} nodes`;
  return `from ${some.slice(0, most).join(", ")}${some.length > most ? ` and ${some.length - most} more` : ""} of ${every.length} nodes`;
}

/** markdown is the answer as it can be pasted into an issue or a pull request. */
export function markdown(run: Run, clock: Clock, word: string, link: string): string {
  const answer = answerOf(run, clock);
  const field = (name: string, texts: string[]): string[] => texts.map((text) => `- **${name}**: ${escaped(text)}`);
  return [
    `**${word}**: ${escaped(run.said?.headline ?? "")}`,
    "",
    ...(answer ? [...field("When", [`${clock.day()} ${answer.when}`]), ...field("Where", [answer.where]), ...field("Why", answer.why.map((l) => l.text)), ...field("Do", answer.fix.map((l) => l.text)), ""] : []),
    escaped([run.tool && `${run.tool.name} ${run.tool.version}`, run.info?.id, link].filter(Boolean).join(" · ")),
    "",
  ].join("\n").replaceAll("\u00a0", " ");
}

/** escaped keeps Markdown from reading names and messages as its own signs. */
const escaped = (text: string): string => glued(text).replace(/[\\`*_<>|[\]]/g, "\\$&");
