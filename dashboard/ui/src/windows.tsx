import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Clock } from "./clock";
import { atMost, classCounts, glued, length, percent, relative } from "./format";
import type { Cause, Event, Evidence, Instant, Ns, Window } from "./model";
import { place, type Run } from "./run";

const pageSize = 100;

/** WindowActions is what is done with windows, and what was. */
export interface WindowActions {
  opened: ReadonlySet<number>;
  focused: number | undefined; // the selected window
  onToggle: (id: number, open: boolean) => void;
  onZoom: (w: Window) => void;
  onEvent: (e: Event) => void;
}

interface WindowsProps extends WindowActions { windows: Window[]; run: Run; clock: Clock }

/** Windows lists stretches in which requests failed, and why. */
export function Windows({ windows, run, clock, opened, focused, onToggle, onZoom, onEvent }: WindowsProps) {
  const [pages, setPages] = useState(1);
  const atLeast = Math.max(pages * pageSize, windows.findIndex((w) => w.id === focused) + 1);
  const shown = windows.slice(0, atLeast);
  return (
    <>
      {windows.length > 0 && (
        <div class="scroll-x">
          <table class="windows">
            <thead><tr>
              <th scope="col"><span class="unseen">Why</span></th><th scope="col">#</th><th scope="col">Start ({clock.name})</th><th scope="col" class="num">Length</th><th scope="col">Kind</th>
              <th scope="col" class="num">Requests</th><th scope="col">Seen by</th><th scope="col">Error</th><th scope="col">Likely cause</th><th scope="col"><span class="unseen">Zoom</span></th>
            </tr></thead>
            <tbody>
              {shown.map((w) => (
                <Fragment key={w.id}>
                  <WindowRow w={w} clock={clock} opened={opened.has(w.id)} focused={focused === w.id} onToggle={onToggle} onZoom={onZoom} />
                  {opened.has(w.id) && <tr class="why-row"><td colSpan={10}><Why w={w} run={run} clock={clock} onEvent={onEvent} /></td></tr>}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.length < windows.length && (
        <p class="note"><button type="button" data-testid="more-windows" onClick={() => setPages(Math.ceil(atLeast / pageSize) + 1)}>
          Show {Math.min(pageSize, windows.length - shown.length)} more of {windows.length} windows
        </button></p>
      )}
    </>
  );
}

interface WindowRowProps { w: Window; clock: Clock; opened: boolean; focused: boolean; onToggle: (id: number, open: boolean) => void; onZoom: (w: Window) => void }

function WindowRow({ w, clock, opened, focused, onToggle, onZoom }: WindowRowProps) {
  const cause = w.causes?.[0];
  return (
    <tr class={`window-row ${w.kind}${focused ? " selected" : ""}`} aria-current={focused || undefined} data-testid="window-row" data-window-id={w.id} onClick={() => onToggle(w.id, !opened)}>
      <td><button type="button" class="twist" aria-expanded={opened} aria-label={`Why window ${w.id}`} onClick={(e) => { e.stopPropagation(); onToggle(w.id, !opened); }}>{opened ? "▾" : "▸"}</button></td>
      <td><span class={`mark-inline ${w.kind}`}>{w.id}</span></td>
      <td class="mono" title={`between ${clock.bracket(w.start)}`}>{clock.began(begun(w))}</td>
      <td class="num strong">{glued(w.said.lasted)}{w.live && <span class="faint"> and on</span>}</td>
      <td>{w.kind}</td>
      <td class="num">{w.kind === "slow" ? `${w.slow ?? 0} / ${w.sent} slow` : `${w.failed} / ${w.sent} ${w.kind === "cut" ? "connections cut" : "failed"}`} <span class="faint share">{percent(w.share)}</span></td>
      <td>{w.target}</td>
      <td>{w.kind === "slow" ? "slow answers" : classCounts(w.classes ?? {})}</td>
      <td>{cause ? <><CauseName cause={cause} /> <Confidence cause={cause} /></> : <span class="faint">not judged yet</span>}</td>
      <td><button type="button" data-testid="zoom" aria-label={`Zoom to window ${w.id}`} onClick={(e) => { e.stopPropagation(); onZoom(w); }}>Zoom</button></td>
    </tr>
  );
}

const CauseName = ({ cause }: { cause: Cause }) => <span class="rule" data-testid="cause">{cause.rule}</span>;

const bars = { high: "●●●", medium: "●●○", low: "●○○" };

const Confidence = ({ cause }: { cause: Cause }) => (
  <span class={`confidence ${cause.confidence}`} data-testid="confidence"><span aria-hidden="true">{bars[cause.confidence]}</span> {cause.confidence}</span>
);

/** Why is what happened in a window, in order, with times relative to its first failure. */
function Why({ w, run, clock, onEvent }: { w: Window; run: Run; clock: Clock; onEvent: (e: Event) => void }) {
  return (
    <div class="why" data-testid="why" data-window-id={w.id}>
      {w.causes?.map((c, i) => <CauseStory key={i} cause={c} w={w} run={run} clock={clock} first={i === 0} onEvent={onEvent} />)}
      <dl class="facts">
        <dt>Began</dt><dd><span class="mono">{clock.bracket(w.start)}</span></dd>
        <dt>Ended</dt><dd><span class="mono">{clock.bracket(w.end)}</span>{w.ended && `, about when ${w.ended.text}`}</dd>
        {w.said.edges && <><dt>Open</dt><dd>{glued(w.said.edges)}</dd></>}
        {w.kind !== "slow" && w.kind !== "cut" && <><dt>Downtime</dt><dd>{glued(w.said.downtime)}{w.kind === "partial" && ", weighed by the share that failed"}</dd></>}
        {w.blackout && <><dt>Blackout</dt><dd>{length(w.blackout)} without any success</dd></>}
        {w.kind !== "cut" && <><dt>Brackets</dt><dd>{w.basis === "exact" ? "exact: every request failed, and a good one is on each side" : "statistical: hold the truth with 99 % probability"}</dd></>}
        {!!w.errors?.length && <><dt>Errors</dt><dd data-testid="error-texts">{w.errors.map((e) => <div key={e.class + e.text} title={`first ${clock.bracket(e.first)}`}><b>{e.class}</b> {e.text}</div>)}</dd></>}
        {w.backends && Object.keys(w.backends).length > 0 && <><dt>Answered by</dt><dd>{Object.entries(w.backends).map(([name, n]) => `${name} (${n})`).join(", ")}</dd></>}
      </dl>
    </div>
  );
}

interface CauseStoryProps { cause: Cause; w: Window; run: Run; clock: Clock; first: boolean; onEvent: (e: Event) => void }

function CauseStory({ cause: c, w, run, clock, first, onEvent }: CauseStoryProps) {
  return (
    <div class={first ? "cause" : "cause further"}>
      <p class="cause-text"><CauseName cause={c} /> <Confidence cause={c} /><br /><span data-testid="cause-text">{c.text}</span></p>
      <ol class="evidence">
        {inOrder(c.evidence ?? [], run).map((s, i) => (
          <li key={i} data-testid="evidence">
            <span class="mono when" title={s.at && clock.bracket(s.at)}>{s.at && when(s.at, w.start.latest)}</span>
            <span class="mono faint spread">{s.at && spread(s.at)}</span>
            <span>{s.event ? <button type="button" class="plain" title="Show this event" onClick={() => onEvent(s.event!)}>{s.text}</button> : s.text}</span>
          </li>
        ))}
      </ol>
      {c.fix && <p class="fix" data-testid="fix"><b>{c.rule === "unexplained" ? "Next" : "Fix"}</b> {c.fix}</p>}
      {!!c.rivals?.length && (
        <div class="rivals" data-testid="rivals"><b>What else was considered</b><ul>{c.rivals.map((r) => <li key={r}>{r}</li>)}</ul></div>
      )}
    </div>
  );
}

/** begun is when a window began: of requests cut in flight, when they were cut. */
export const begun = (w: Window): Instant => w.cut ?? w.start;

const middle = (i: Instant): Ns => (i.earliest + i.latest) / 2;
const width = (i: Instant): Ns => i.latest - i.earliest;
/** vague instants are known so badly that only their later bound is worth reading. */
const vague = (i: Instant): boolean => width(i) > 200e6;
const when = (i: Instant, zero: Ns): string => (vague(i) ? `by ${relative(i.latest, zero)}` : relative(middle(i), zero));
const spread = (i: Instant): string => (vague(i) || width(i) < 1e6 ? "" : `±${atMost(width(i) / 2)}`);

interface Moment { at?: Instant; text: string; event?: Event }

/** inOrder puts the evidence in order of time; what has no time of its own comes last. */
function inOrder(evidence: Evidence[], run: Run): Moment[] {
  const moments = evidence.map((e): Moment => {
    const event = e.event === undefined ? undefined : run.event(e.event);
    const at = e.at ?? event?.at ?? (event && { earliest: place(event), latest: place(event) });
    return { text: e.text, ...(at && { at }), ...(event && { event }) };
  });
  const order = (m: Moment): Ns => m.at?.latest ?? Infinity;
  return moments.sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}
