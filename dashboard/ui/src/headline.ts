import { atMost, coverage, duration, length, plural, unknownLength } from "./format";
import { type Event, type GateResult, type Held, type Length, type NodeCoverage, type Ns, type RunInfo, type Scorecard, type Target, type Unobserved, type Verdict, type Window, judged } from "./model";

// What the page says first, in the words of report/headline.go: a test holds the two together.

/** Found is the part of a run that its headline tells of. */
export interface Found {
  verdict: Verdict;
  info?: RunInfo;
  held: Pick<Held, "stood">[];
  targets: Pick<Target, "name" | "kind" | "slowFrom" | "gapLimit">[];
  windows: Window[];
  unobserved: Pick<Unobserved, "start" | "end">[];
  events: Event[];
  live: boolean;
}

/** headline says what was found: that comes first also where the run proves nothing. */
export function headline(run: Found): string {
  const { verdict: v, windows } = run;
  if (!v.sent) return withCommand(run, v.held || "nothing was measured");
  const parts = [found(run)];
  if (v.held) parts.push(v.held);
  const slow = windows.filter((w) => w.kind === "slow").length;
  if (slow) parts.push(`answers slower than ${duration(slowFrom(run))} in ${plural(slow, "window")}`);
  if (v.coverage < minCoverage(run.info)) parts.push(`only ${coverage(v.coverage)} was observed`);
  else if (!v.failed && !tooLittle(run) && !v.blind) parts.push(detectable(run));
  if (v.blind) parts.push(v.blind);
  parts.push(...leastOf(run));
  return withCommand(run, parts.join("; "));
}

/** leastOf names the node that observed least, if one missed something. */
function leastOf(run: Found): string[] {
  const nodes = run.verdict.nodes ?? [];
  const [least] = nodes;
  if (!least || nodes.length < 2 || least.coverage >= 1) return [];
  const short = shortNodes(run).length;
  if (short > 1) return [`${silence(least)}, and ${short - 1} more of ${nodes.length} nodes observed too little`];
  return [short ? silence(least) : `least was observed from ${least.node}, ${coverage(least.coverage)}`];
}

/** silence says how much a node observed, and for how long it was silent. */
const silence = (n: NodeCoverage): string =>
  n.target ? `${n.node} observed ${coverage(n.coverage)} and was silent for ${duration(n.unobserved)} (${n.target})` : `${n.node} observed nothing`;

/** shortNodes are the nodes that observed too little for the run to pass. */
const shortNodes = ({ verdict: v, info }: Pick<Found, "verdict" | "info">): NodeCoverage[] =>
  (v.nodes ?? []).filter((n) => n.coverage < (info?.minNodeCoverage ?? minCoverage(info)));

/** slowFrom is the least that an answer took in a slow window. */
function slowFrom({ targets, windows, info }: Found): Ns {
  const slow = new Set(windows.filter((w) => w.kind === "slow").map((w) => w.target));
  const from = targets.filter((t) => slow.has(t.name) && t.slowFrom).map((t) => t.slowFrom!);
  return from.length ? Math.min(...from) : (info?.slow ?? 0);
}

function found(run: Found): string {
  const { verdict: v } = run;
  if (!v.failed) return `no failure seen in ${plural(v.sent, "request")}`;
  const failed = `${v.failed} of ${plural(v.sent, "request")} failed`;
  const targets = new Set(run.windows.filter((w) => w.kind !== "slow").map((w) => w.target)).size;
  return targets > 1 ? `${failed} at ${plural(targets, "target")}; the worst was ${down(run)}` : `${failed}: ${down(run)}`;
}

/**
 * down says how long requests failed. Where too little was observed only the lower bound is given, if there is one: there may have
 * been more. The windows that were found are still no longer than their brackets.
 */
function down(run: Found): string {
  const { total, open } = run.verdict.downtime;
  const text = length(total, open || (tooLittle(run) && total.min > 0));
  return `down ${text === unknownLength ? "for an unknown time" : text} in ${plural(run.verdict.windows, "window")}`;
}

function withCommand(run: Found, text: string): string {
  const end = commandFailure(run);
  if (!end) return text;
  return run.verdict.failed ? `${text}; the command ${end}` : `the command ${end}; ${text}`;
}

function commandFailure({ info, live }: Found): string {
  return info?.command?.exitCode && !live ? `failed (exit code ${info.command.exitCode})` : "";
}

/** detectable says which outage would have been seen, and how much of the time. */
function detectable({ verdict: v, unobserved, targets }: Found): string {
  const longest = unobserved.reduce((all, u) => Math.max(all, u.end - u.start), v.detectionLimit);
  if (v.coverage >= 1) return `an outage of ${atMost(longest)} or longer would have been seen at any time`;
  const resolution = targets.filter((t) => judged(t.kind)).reduce((all, t) => Math.max(all, t.gapLimit ?? 0), v.detectionLimit);
  return `an outage of ${atMost(resolution)} or longer would have been seen in ${coverage(v.coverage)} of the time; the longest gap was ${atMost(longest)}`;
}

/** minCoverage is the share of the time that must have been observed for a run to pass. */
export const minCoverage = (info: RunInfo | undefined): number => info?.minCoverage || 0.99;

/** tooLittle tells whether so little was observed that the run cannot pass. */
export const tooLittle = (run: Judged): boolean =>
  (run.verdict.sent > 0 || run.held.length > 0) && (run.verdict.coverage < minCoverage(run.info) || shortNodes(run).length > 0);

/** Judged is what tells how good the measurement was. */
export type Judged = Pick<Found, "verdict" | "info" | "held">;

/** soundness says in a word whether the instrument did its work. */
export function soundness(run: Judged): string {
  const { sent, validity: { control } } = run.verdict;
  if (!sent && !run.held.some((h) => h.stood > 0)) return "none";
  if (control && control !== "ok" && control !== "absent") return "doubtful";
  return tooLittle(run) ? "incomplete" : "valid";
}

/** worstOf says of how many judged targets a figure is the worst one's; nothing if there is one only. */
export function worstOf(judged: number): string {
  return judged > 1 ? `The value of the worst of ${judged} targets. Only failed requests add over targets.` : "";
}

const help = "what would help: ";

/** saidFirst tells whether a verdict's reason is said by the headline or a caveat. */
export const saidFirst = (reason: string): boolean => reason.startsWith(help) || /^(no failure seen|\d+ of \d+ requests? failed)/.test(reason);

/** caveats say how the run ended early, what its command said when it failed, and what would help. */
export function caveats(run: Found): string[] {
  const { verdict: v, info } = run;
  const lines: string[] = [];
  if (info?.truncated) lines.push(`${recorded(info)}; ${info.aborted}`);
  else if (info?.aborted) lines.push(`aborted after ${duration(info.duration)}: ${info.aborted}`);
  if (commandFailure(run)) lines.push(...lastWords(run.events).map((line) => `it said: ${line}`));
  return lines.concat(v.notes ?? [], v.reasons?.filter((r) => r.startsWith(help)) ?? []);
}

/** recorded says how much of a run was recorded whose recording ends before it did. */
function recorded(info: RunInfo): string {
  return `recorded for ${duration(info.duration)}${(info.planned ?? 0) > info.duration ? ` of ${duration(info.planned!)}` : ""}`;
}

/** lastWords are the last different lines that the wrapped command wrote. */
function lastWords(events: Event[]): string[] {
  const said: string[] = [];
  for (let i = events.length - 1; i >= 0 && said.length < 3; i--) {
    const line = events[i]!.detail?.trim();
    if (events[i]!.kind === "command-output" && line && !said.includes(line)) said.unshift(line);
  }
  return said;
}

/** unproven says why a gate that holds is no pass; nothing if it is one. */
export function unproven(run: Judged): string {
  if (run.info?.truncated) return "the recording breaks off";
  if (run.info?.aborted) return "the run was aborted";
  return tooLittle(run) ? "not enough was observed" : "";
}

/** gateRemark says how a gate was decided. One that holds in a run that proves too little is no pass. */
export function gateRemark(run: Judged, { outcome }: GateResult): string {
  if (outcome !== "pass") return outcome;
  const short = unproven(run);
  if (short) return `not broken, but ${short}`;
  return run.verdict.blind ? "pass, but blind" : "pass";
}

/** windowLength is how long a window took. One whose end was not observed is no longer than what is known to be well beyond. */
export const windowLength = (w: Window): string => bounded(w, w.length, w.most?.length);

/** windowDowntime is how much downtime a window amounts to, bounded likewise. */
export const windowDowntime = (w: Window): string => bounded(w, w.downtime, w.most?.downtime);

function bounded(w: Window, l: Length, most: Ns | undefined): string {
  return open(w) && most !== undefined ? length({ min: l.min, max: most }) : length(l, open(w));
}

/** open reports whether a window was cut off by the end of what was observed. */
export const open = (w: Window): boolean => !!w.open && (w.open.start || w.open.end);

/** reasonText says why time was not observed, in one word for one thing. */
export function reasonText(reason: string): string {
  if (reason === "not sent") return "prober stalled";
  return reason === "local fault" ? "prober failed itself" : reason;
}

/** scorecardWords is a scorecard in a line. */
export function scorecardWords(c: Scorecard): string {
  const untested = c.notTested ? `, not tested ${c.notTested}` : "";
  return `predicted ${c.predicted}: confirmed ${c.confirmed}, refuted ${c.refuted}${untested}, missed ${c.missed}`;
}
