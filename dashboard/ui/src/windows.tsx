import { Fragment } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { bracket, clock, count, duration, length, percent, relative } from "./format";
import type { Cause, Evidence, Instant, Ns, Window } from "./model";
import { place, type Run } from "./run";

interface WindowsProps {
  run: Run;
  opened: ReadonlySet<number>;
  focused: number | undefined; // the window to bring into view
  onToggle: (id: number) => void;
  onZoom: (w: Window) => void;
}

/** Windows lists the stretches in which requests failed, and why. */
export function Windows({ run, opened, focused, onToggle, onZoom }: WindowsProps) {
  const { windows, t0 } = run;
  return (
    <section class="panel" aria-label="Windows">
      <header class="panel-head"><h2>Windows</h2><span class="faint">{windows.length ? "Select one to see why" : run.live ? "None so far" : "None"}</span></header>
      {windows.length > 0 && (
        <div class="scroll-x">
          <table class="windows">
            <thead><tr><th /><th>#</th><th>Start (UTC)</th><th class="num">Length</th><th>Kind</th><th class="num">Failed / sent</th><th>Seen by</th><th>Error</th><th>Likely cause</th><th /></tr></thead>
            <tbody>
              {windows.map((w) => (
                <Fragment key={w.id}>
                  <WindowRow w={w} t0={t0} opened={opened.has(w.id)} focused={focused === w.id} onToggle={onToggle} onZoom={onZoom} />
                  {opened.has(w.id) && <tr class="why-row"><td colSpan={10}><Why w={w} run={run} /></td></tr>}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

interface WindowRowProps { w: Window; t0: number; opened: boolean; focused: boolean; onToggle: (id: number) => void; onZoom: (w: Window) => void }

function WindowRow({ w, t0, opened, focused, onToggle, onZoom }: WindowRowProps) {
  const row = useRef<HTMLTableRowElement>(null);
  useLayoutEffect(() => { if (focused) row.current?.scrollIntoView({ block: "nearest" }); }, [focused]);
  const cause = w.causes?.[0];
  return (
    <tr ref={row} class={`window-row ${w.kind}`} data-testid="window-row" data-window-id={w.id} onClick={() => onToggle(w.id)}>
      <td><button type="button" class="twist" aria-expanded={opened} aria-label={`Why window ${w.id}`} onClick={(e) => { e.stopPropagation(); onToggle(w.id); }}>{opened ? "▾" : "▸"}</button></td>
      <td><span class={`mark-inline ${w.kind}`}>{w.id}</span></td>
      <td class="mono" title={`between ${bracket(t0, w.start)}`}>{clock(t0, w.start.latest)}</td>
      <td class="num strong">{length(w.length, open(w))}{w.live && <span class="faint"> and on</span>}</td>
      <td>{w.kind}</td>
      <td class="num">{count(w.failed)} / {count(w.sent)} <span class="faint share">{percent(w.share)}</span></td>
      <td>{w.target}</td>
      <td>{classes(w)}</td>
      <td>{cause ? <><CauseName cause={cause} /> <Confidence cause={cause} /></> : <span class="faint">not judged yet</span>}</td>
      <td><button type="button" data-testid="zoom" onClick={(e) => { e.stopPropagation(); onZoom(w); }}>Zoom</button></td>
    </tr>
  );
}

/** classes names the kinds of failure, the most frequent first. */
function classes(w: Window): string {
  return Object.entries(w.classes ?? {}).sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name}${"\u00a0"}${count(n)}`).join(", ");
}

const CauseName = ({ cause }: { cause: Cause }) => <span class="rule" data-testid="cause">{cause.rule}</span>;

const bars = { high: "●●●", medium: "●●○", low: "●○○" };

const Confidence = ({ cause }: { cause: Cause }) => (
  <span class={`confidence ${cause.confidence}`} data-testid="confidence"><span aria-hidden="true">{bars[cause.confidence]}</span> {cause.confidence}</span>
);

/** Why tells a window's story: what happened, in order, with times relative to its first failure. */
function Why({ w, run }: { w: Window; run: Run }) {
  const { t0 } = run;
  return (
    <div class="why" data-testid="why" data-window-id={w.id}>
      {w.causes?.map((c, i) => <CauseStory key={i} cause={c} w={w} run={run} first={i === 0} />)}
      <dl class="facts">
        <dt>Began</dt><dd class="mono">{bracket(t0, w.start)}{w.open.start && " (open: nothing observed before)"}</dd>
        <dt>Ended</dt><dd class="mono">{bracket(t0, w.end)}{w.open.end && " (open: nothing observed after)"}</dd>
        <dt>Downtime</dt><dd>{length(w.downtime, open(w))}, request-weighted</dd>
        {w.blackout && <><dt>Blackout</dt><dd>{length(w.blackout)} without any success</dd></>}
        <dt>Brackets</dt><dd>{w.basis === "exact" ? "exact: a good request on each side" : "statistical: hold the truth with 99 % probability"}</dd>
        {w.backends && Object.keys(w.backends).length > 0 && <><dt>Answered by</dt><dd>{Object.entries(w.backends).map(([name, n]) => `${name} (${count(n)})`).join(", ")}</dd></>}
      </dl>
    </div>
  );
}

function CauseStory({ cause: c, w, run, first }: { cause: Cause; w: Window; run: Run; first: boolean }) {
  return (
    <div class={first ? "cause" : "cause further"}>
      <p class="cause-text"><CauseName cause={c} /> <Confidence cause={c} /><br /><span data-testid="cause-text">{c.text}</span></p>
      <ol class="story">
        {story(c.evidence ?? [], run).map((s, i) => (
          <li key={i} data-testid="evidence">
            <span class="mono when" title={s.at && bracket(run.t0, s.at)}>{s.at && when(s.at, w.start.latest)}</span>
            <span class="mono faint spread">{s.at && spread(s.at)}</span>
            <span>{s.text}</span>
          </li>
        ))}
      </ol>
      {c.fix && <p class="fix" data-testid="fix"><b>Fix</b> {c.fix}</p>}
      {!!c.rivals?.length && (
        <div class="rivals" data-testid="rivals"><b>What else it could be</b><ul>{c.rivals.map((r) => <li key={r}>{r}</li>)}</ul></div>
      )}
    </div>
  );
}

/** open reports whether a window was cut off by the end of what was observed. */
export const open = (w: Window): boolean => !!w.open && (w.open.start || w.open.end);

const middle = (i: Instant): Ns => (i.earliest + i.latest) / 2;
const width = (i: Instant): Ns => i.latest - i.earliest;
/** vague instants are known so badly that only their later bound is worth reading. */
const vague = (i: Instant): boolean => width(i) > 200e6;
const when = (i: Instant, zero: Ns): string => (vague(i) ? `by ${relative(i.latest, zero)}` : relative(middle(i), zero));
const spread = (i: Instant): string => (vague(i) || width(i) < 1e6 ? "" : `±${duration(width(i) / 2)}`);

/** story puts the evidence in order of time; what has no time of its own comes last. */
function story(evidence: Evidence[], run: Run): { at?: Instant; text: string }[] {
  const placed = evidence.map((e) => ({ at: e.at ?? eventTime(run, e.event), text: e.text }));
  const order = (e: { at?: Instant }): Ns => e.at?.latest ?? Infinity;
  return placed.sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}

function eventTime(run: Run, id: number | undefined): Instant | undefined {
  const e = id === undefined ? undefined : run.event(id);
  return e && (e.at ?? { earliest: place(e), latest: place(e) });
}

