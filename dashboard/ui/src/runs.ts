import { coverage, duration, plural } from "./format";

// Many runs, as GET /api/v1/runs and /api/v1/now have them (dashboard/folder.go, correlate/trend/days.go,
// internal/report/trend/said.go).

/** Outcome is what a run, or a day, showed of a Service. */
export type Outcome = "dropped" | "gateFailed" | "unmeasured" | "passed" | "nothing";

export interface Listed {
  name: string; services?: string[]; setOff?: string; release?: string[]; began?: string; ended?: string; word: string; result?: string;
  outcome?: Outcome; headline?: string; down?: string; cause?: string; fix?: string; failed: number; sent: number;
  gone?: boolean; // only its line of history is left: it has no page
  again?: string; // the run that counts instead: two guards measured one disruption, and this run says no worse
}

export interface Day {
  date: string; outcome: Outcome; runs: number; dropped?: number; gateFailed?: number; unmeasured?: number;
  failed?: number; sent?: number;
  observed: number; // the share of the day, from since on
  since?: string; // when the Service was first observed, if that was on this day
}

export interface ServiceDays { service: string; days: Day[] }

export interface Release { name: string; lossy: string; failed: string; downtime: string; cause?: string; before?: string; change?: string }
export interface Group { service: string; remark: string; releases: Release[] }
export interface Trend { headline: string; groups: Group[]; notes: string[] }

export interface Runs { version: string; runs: Listed[]; older?: number; days: ServiceDays[]; trend: Trend }

export interface Watched { name: string; state: string; since: string; about?: string; run?: string; sent?: number; failed?: number }
export interface GuardNow { at: string; speaks: "this" | "other" | "nobody"; problems?: string[]; services: Watched[] | null }
export interface Now { version: string; guard?: GuardNow }

/** Filter says which runs are listed. Its members are those of the address's fragment. */
export interface Filter { service?: string; outcome?: Outcome; day?: string }

const outcomes: Record<Outcome, string> = { dropped: "dropped requests", gateFailed: "a gate failed", unmeasured: "not measured", passed: "passed", nothing: "nothing happened" };
export const outcomeText = (o: Outcome): string => outcomes[o];

/** filterOf reads a fragment such as #service=shop%2Fweb&day=2026-11-26. */
export function filterOf(hash: string): Filter {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const [service, outcome, day] = [said.get("service"), said.get("outcome"), said.get("day")];
  return { ...(service && { service }), ...(outcome && outcome in outcomes && { outcome: outcome as Outcome }), ...(day && { day }) };
}

export const hashOf = (f: Filter): string => `#${new URLSearchParams(f as Record<string, string>)}`;

/** end is when a run ended, or began if that is all that is known; NaN if nothing is. */
const end = (run: Listed): number => Date.parse(run.ended ?? run.began ?? "");

/** on tells whether a run went on on a day (UTC). One that ended at midnight did not on the next. */
function on(run: Listed, day: string): boolean {
  const last = Number.isNaN(end(run)) ? "" : new Date(end(run) - 1).toISOString().slice(0, 10);
  const first = run.began?.slice(0, 10) ?? "";
  return day === first || (first < day && day <= last);
}

/** whole is what a run counts as in a filter: what is not judged is not measured. */
const whole = (run: Listed): Outcome => run.outcome ?? "unmeasured";

export const chosen = (runs: Listed[], f: Filter): Listed[] =>
  runs.filter((r) => (!f.service || r.services?.includes(f.service)) && (!f.outcome || whole(r) === f.outcome) && (!f.day || on(r, f.day)));

/** newestFirst sorts runs; those of which nothing is known come last. */
export const newestFirst = (runs: Listed[]): Listed[] =>
  [...runs].sort((a, b) => (b.began ?? "").localeCompare(a.began ?? "") || a.name.localeCompare(b.name));

const enoughOfADay = 0.99; // as correlate/trend has it

/** dayText says what a day showed, in full. */
export function dayText(day: Day, guarded: boolean): string {
  const { runs, dropped = 0, gateFailed = 0, unmeasured = 0, failed = 0, sent = 0 } = day;
  const parts: string[] = [];
  if (dropped) parts.push(`${dropped} of ${plural(runs, "run")} dropped requests (${failed} of ${sent})`);
  if (gateFailed) parts.push(`a gate failed in ${plural(gateFailed, "run")}`);
  if (unmeasured) parts.push(`${plural(unmeasured, "run")} not measured`);
  const passed = runs - dropped - gateFailed - unmeasured;
  if (passed > 0) parts.push(`${plural(passed, "run")} passed`);
  const since = day.since && `since ${timeText(day.since).slice(11, 16)}`;
  if (!guarded) parts.push(...(runs ? [] : ["no run"]));
  else if (day.observed === 0) parts.push("no guard observed it");
  else if (day.observed < enoughOfADay) parts.push(`a guard observed ${coverage(day.observed)} of ${since ? `the time ${since}` : "it"}`);
  else parts.push(...(runs ? [] : ["nothing happened"]), ...(since ? [`measured ${since}`] : []));
  return `${day.date}: ${parts.join(", ")}`;
}

const aDay = 24 * 3600_000;

/** lately are the days of a Service since yesterday, but none before the one on which it was first observed. */
export function lately(days: Day[]): Day[] {
  const last = days.slice(-2);
  return last.at(-1)?.since ? last.slice(-1) : last;
}

/** Worst is the run of a Service that dropped most, the one whose page shows that, if there is one, and how many others dropped, too. */
export interface Worst { run: Listed; page?: Listed | undefined; others: number }

/** Answer is what whoever was woken up wants to know first. */
export interface Answer {
  style: "pass" | "fail" | "inconclusive";
  word: string;
  headline: string;
  over: string; // the time that it is about
  worst: Worst[]; // of each Service that the headline is about
}

/** answer is about the 24 hours before now, or where no guard measures, before the newest run. */
export function answer(all: Listed[], days: ServiceDays[], guard: GuardNow | undefined, now: number): Answer {
  const newest = newestFirst(all)[0]?.began;
  const until = guard || !newest ? now : Date.parse(newest);
  const recent = all.filter((r) => !r.again && r.began && end(r) > until - aDay && Date.parse(r.began) <= until + aDay);
  const of = (o: Outcome) => recent.filter((r) => whole(r) === o && !guard?.services?.some((w) => w.run === r.name));
  const over = guard ? `in the last 24 hours${begun(days, guard, until)}` : newest ? `in the 24 hours until ${timeText(newest)} UTC` : "";
  const [dropped, gates, unmeasured] = [of("dropped"), of("gateFailed"), of("unmeasured")];
  const failing = (guard?.services ?? []).filter((s) => s.failed);
  const many = (n: number) => `${n} of ${plural(recent.length, "run")}`;
  if (failing.length) {
    const headline = failing.map((s) => `${s.name}: ${s.failed} of ${s.sent} requests failed`).join("; ");
    return { style: "fail", word: "✗ DROPS NOW", headline, over: "in the run that goes on", worst: worstOf(dropped, all) };
  }
  if (dropped.length) return { style: "fail", word: "✗ DROPPED", headline: `Requests were dropped in ${many(dropped.length)}`, over, worst: worstOf(dropped, all) };
  if (gates.length) return { style: "fail", word: "✗ FAILED", headline: `No request was dropped, but a gate failed in ${many(gates.length)}`, over, worst: worstOf(gates, all) };
  const blind = guard ? notObserved(days, guard) : [];
  if (unmeasured.length || blind.length) {
    const why = [...(unmeasured.length ? [`${many(unmeasured.length)} ${unmeasured.length === 1 ? "is" : "are"} inconclusive`] : []), ...blind];
    return { style: "inconclusive", word: "? NOT ALL MEASURED", headline: `No request is known to have been dropped, but ${why.join("; ")}`, over, worst: worstOf(unmeasured, all) };
  }
  if (recent.length) return { style: "pass", word: "✓ NONE DROPPED", headline: `No request was dropped in ${plural(recent.length, "run")}`, over, worst: [] };
  const going = (guard?.services ?? []).filter((s) => s.run).map((s) => s.name);
  if (going.length) return { style: "inconclusive", word: "● MEASURING", headline: `The first disruption goes on: ${going.join(", ")}`, over, worst: [] };
  if (guard?.services?.length) return { style: "pass", word: "✓ NOTHING HAPPENED", headline: "No disruption, and all was observed", over, worst: [] };
  return { style: "inconclusive", word: "? NOTHING MEASURED", headline: guard ? "No Service is guarded: annotate one with lapse/guard=on" : "There is no run", over, worst: [] };
}

/** notObserved says which Services were not observed today and yesterday, and which are not now. */
function notObserved(days: ServiceDays[], guard: GuardNow): string[] {
  const names = (guard.services ?? []).map((s) => s.name);
  const now = (guard.services ?? []).filter((s) => s.state === "not measured").map((s) => s.name);
  const of = (n: string) => days.find((d) => d.service === n)?.days ?? [];
  const others = names.filter((n) => !now.includes(n));
  const [never, once] = [(n: string) => of(n).every((d) => d.observed === 0), (n: string) => lately(of(n)).some((d) => d.observed < enoughOfADay)];
  const [fresh, gaps] = [others.filter(never), others.filter((n) => !never(n) && once(n))];
  return [
    ...(now.length ? [`not measured now: ${some(now)}`] : []),
    ...(fresh.length ? [`not observed yet: ${some(fresh)}`] : []),
    ...(gaps.length ? [`not observed throughout since yesterday: ${some(gaps)}`] : []),
  ];
}

/** begun says which Services were first observed in the day before an instant, and when. */
function begun(days: ServiceDays[], guard: GuardNow, end: number): string {
  const guarded = days.filter((d) => guard.services?.some((s) => s.name === d.service));
  const since = (d: ServiceDays) => lately(d.days).find((x) => x.since && Date.parse(x.since) > end - aDay)?.since;
  const all = guarded.filter(since);
  const times = all.map((d) => timeText(since(d)!).slice(0, 16)).sort();
  if (!times.length) return "";
  return `; measured since ${times[0]} UTC${times[0] === times.at(-1) ? "" : " or later"}: ${some(all.map((d) => d.service))}`;
}

const some = (names: string[]): string => (names.length > 3 ? plural(names.length, "Service") : names.join(", "));

/** worstOf has of each Service the run that dropped most, the worst first. */
function worstOf(runs: Listed[], all: Listed[]): Worst[] {
  const by = new Map<string, Listed[]>();
  for (const r of runs) {
    const name = r.services?.join(", ") ?? "";
    by.set(name, [...(by.get(name) ?? []), r]);
  }
  const worst = [...by.values()].map((of) => ({ run: of.reduce((a, b) => (b.failed > a.failed ? b : a)), others: of.length - 1 })).sort((a, b) => b.run.failed - a.run.failed);
  return worst.map((w) => ({ ...w, page: [w.run, ...all.filter((r) => r.again === w.run.name)].find((r) => !r.gone) }));
}

/** timeText writes an instant as the list does: "2026-11-26 12:04:49". */
export const timeText = (at: string): string => at.slice(0, 19).replace("T", " ");

/** ago writes how long ago an instant was. */
export function ago(at: string, now: number): string {
  const ms = Math.max(0, now - Date.parse(at));
  const [hours, minutes] = [Math.floor(ms / 3600_000), Math.floor(ms / 60_000)];
  if (hours >= 48) return plural(Math.floor(hours / 24), "day");
  if (hours >= 1) return `${hours}\u00a0h`;
  return minutes >= 2 ? `${minutes}\u00a0min` : duration(Math.round(ms / 1000) * 1e9);
}

/** ticked adds a run to those that are to be compared, or takes it out. A third takes the place of the first. */
export const ticked = (names: string[], name: string): string[] => (names.includes(name) ? names.filter((n) => n !== name) : [...names, name].slice(-2));

/** comparedFrom is the address of the comparison of two runs, the older one first. */
export function comparedFrom(all: Listed[], names: string[]): string {
  const [b, a] = newestFirst(all.filter((r) => names.includes(r.name)));
  return a && b ? `?${new URLSearchParams({ compare: `${a.name},${b.name}` })}` : "";
}

/** earlier has of each run the newest one before it of the same Services, if both can be compared. */
export function earlier(newest: Listed[]): Map<Listed, Listed> {
  const [before, last] = [new Map<Listed, Listed>(), new Map<string, Listed>()];
  for (const r of newest.toReversed()) {
    const key = r.services?.join();
    if (!key || r.again) continue;
    const of = last.get(key);
    if (of && comparable(of) && comparable(r)) before.set(r, of);
    last.set(key, r);
  }
  return before;
}

/** found is what a run showed: which requests failed, or else why it did not pass. */
export const found = (run: Listed): string =>
  run.failed || !run.headline ? [`${run.failed} of ${run.sent} requests failed`, run.down && `down ${run.down}`, run.cause].filter(Boolean).join(" · ") : run.headline;

/** comparable tells whether a run has a page, and a name that can stand in the address of a comparison. */
export const comparable = (run: Listed): boolean => !run.gone && !run.name.includes(",");

/** whatToDo is what a run says against its cause. Of one that is gone there may be only the cause. */
export const whatToDo = (run: Listed): string => run.fix || (run.gone && run.cause ? `what the guide says: lapse explain ${run.cause}` : "");

const shortened = 12; // characters of a digest that tell it from others

/** short is a release as it can be told from others: of sha256:0123… the first digits. */
export const short = (release: string): string => (release === "not on record" ? release : release.replace(/^sha256:/, "").slice(0, shortened));
