import { useState } from "preact/hooks";
import type { Clock } from "./clock";
import { errorOf, type Moment, moments, when } from "./evidence";
import { atMost, classCounts, glued, length, percent } from "./format";
import type { Cause, Event, Ns, Window } from "./model";
import type { Run } from "./run";

const pageSize = 100;

/** WindowActions is what is done with windows, and what was. */
export interface WindowActions {
  opened: ReadonlySet<number>;
  focused: number | undefined; // the selected window
  onToggle: (id: number, open: boolean) => void;
  onZoom: (w: Window) => void;
  onEvent: (e: Event) => void;
}

interface WindowsProps extends WindowActions { windows: Window[]; run: Run; clock: Clock; fixes?: boolean /* nobody else says what to do */ }

/** Windows lists stretches in which requests failed, and why. */
export function Windows({ windows, run, clock, fixes, opened, focused, onToggle, onZoom, onEvent }: WindowsProps) {
  const [pages, setPages] = useState(1);
  const atLeast = Math.max(pages * pageSize, windows.findIndex((w) => w.id === focused) + 1);
  const shown = windows.slice(0, atLeast);
  return (
    <>
      <ol class="windows">
        {shown.map((w) => (
          <li key={w.id}>
            <WindowRow w={w} clock={clock} opened={opened.has(w.id)} focused={focused === w.id} onToggle={onToggle} onZoom={onZoom} />
            {opened.has(w.id) && <Why w={w} run={run} clock={clock} fixes={!!fixes} onEvent={onEvent} />}
          </li>
        ))}
      </ol>
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
    <div class={`window-row ${w.kind}${focused ? " selected" : ""}`} aria-current={focused || undefined} data-testid="window-row" data-window-id={w.id} onClick={() => onToggle(w.id, !opened)}>
      <button type="button" class="twist" aria-expanded={opened} aria-label={`Why window ${w.id}`} onClick={(e) => { e.stopPropagation(); onToggle(w.id, !opened); }}>{opened ? "▾" : "▸"}</button>
      <span class={`mark-inline ${w.kind}`}>{w.id}</span>
      <b>{w.target}</b>
      <span class="mono" title={`it began between ${clock.bracket(w.start)}`}>by {clock.at((w.cut ?? w.start).latest)}</span>
      {w.live && <span class="faint">goes on</span>}
      <span>{lostText(w)} <span class="faint">{percent(w.share)}, {w.kind === "slow" ? "slow answers" : classCounts(w.classes ?? {})}</span></span>
      <span>{cause ? <><CauseName cause={cause} /> <Confidence cause={cause} /></> : <span class="faint">not judged yet</span>}</span>
      <button type="button" data-testid="zoom" aria-label={`Zoom to window ${w.id}`} onClick={(e) => { e.stopPropagation(); onZoom(w); }}>Zoom</button>
    </div>
  );
}

const lostText = (w: Window): string => (w.kind === "slow" ? `${w.slow ?? 0} / ${w.sent} slow` : `${w.failed} / ${w.sent} ${w.kind === "cut" ? "connections cut" : "failed"}`);

const CauseName = ({ cause }: { cause: Cause }) => <span class="rule" data-testid="cause">{cause.rule}</span>;

const bars = { high: "●●●", medium: "●●○", low: "●○○" };

const Confidence = ({ cause }: { cause: Cause }) => (
  <span class="confidence" data-testid="confidence"><span aria-hidden="true">{bars[cause.confidence]}</span> {cause.confidence}</span>
);

interface WhyProps { w: Window; run: Run; clock: Clock; fixes: boolean; onEvent: (e: Event) => void }

/** Why is what happened in a window, in order, with times relative to its first failure. */
function Why({ w, run, clock, fixes, onEvent }: WhyProps) {
  return (
    <div class="why" data-testid="why" data-window-id={w.id}>
      {w.causes?.map((c, i) => <CauseStory key={i} cause={c} w={w} run={run} clock={clock} fixes={fixes} first={i === 0} onEvent={onEvent} />)}
      <dl class="facts">
        <dt>Lasted</dt><dd>{glued(w.said.lasted)}</dd>
        <dt>Began</dt><dd><span class="mono">{clock.bracket(w.start)}</span></dd>
        <dt>Ended</dt><dd><span class="mono">{clock.bracket(w.end)}</span>{w.ended && `, about when ${w.ended.text}`}</dd>
        {w.said.edges && <><dt>Open</dt><dd>{glued(w.said.edges)}</dd></>}
        {w.kind !== "slow" && w.kind !== "cut" && <><dt>Equals</dt><dd>{glued(w.said.downtime)} of full outage</dd></>}
        {w.blackout && <><dt>Blackout</dt><dd>{length(w.blackout)} without any success</dd></>}
        {w.kind !== "cut" && <><dt>Brackets</dt><dd>{w.basis === "exact" ? "exact: every request failed, and a good one is on each side" : "statistical: hold the truth with 99 % probability"}</dd></>}
        {!!w.errors?.length && <><dt>Errors</dt><dd data-testid="error-texts">{w.errors.map((e) => <div key={e.class + e.text} title={`first ${clock.bracket(e.first)}`}><b>{e.class}</b> {e.text}</div>)}</dd></>}
        {w.backends && Object.keys(w.backends).length > 0 && <><dt>Answered by</dt><dd>{Object.entries(w.backends).map(([name, n]) => `${name} (${n})`).join(", ")}</dd></>}
      </dl>
    </div>
  );
}

interface CauseStoryProps extends WhyProps { cause: Cause; first: boolean }

function CauseStory({ cause: c, w, run, clock, fixes, first, onEvent }: CauseStoryProps) {
  return (
    <div class={first ? "cause" : "cause further"}>
      <p class="cause-text"><CauseName cause={c} /> <Confidence cause={c} /><br /><span data-testid="cause-text">{c.text}</span></p>
      <Evidence moments={moments(c, run)} zero={w.start.latest} clock={clock} onEvent={onEvent} />
      {fixes && c.fix && <p class="fix" data-testid="fix"><b>{c.rule === "unexplained" ? "Next" : "Fix"}</b> {c.fix}</p>}
      {!!c.rivals?.length && (
        <div class="rivals" data-testid="rivals"><b>What else was considered</b><ul>{c.rivals.map((r) => <li key={r}>{r}</li>)}</ul></div>
      )}
    </div>
  );
}

interface EvidenceProps { moments: Moment[]; zero: Ns; clock: Clock; onEvent: (e: Event) => void }

/** Evidence lists what happened in order, with times relative to zero, and with the numbers that moments have on the timeline. */
export function Evidence({ moments, zero, clock, onEvent }: EvidenceProps) {
  const numbered = moments.some((m) => m.number !== undefined);
  return (
    <ol class={numbered ? "evidence numbered" : "evidence"}>
      {moments.map(({ at, text, event, number }, i) => (
        <li key={i} data-testid="evidence">
          {numbered && <span>{number !== undefined && <b class="step">{number}</b>}</span>}
          <span class="mono" title={at && clock.bracket(at)}>{at && when(at, zero)} <span class="faint spread">{at && errorOf(at) > 0 && `±${atMost(errorOf(at))}`}</span></span>
          <span>{event ? <button type="button" class="plain" title="Show this event" onClick={() => onEvent(event)}>{text}</button> : text}</span>
        </li>
      ))}
    </ol>
  );
}
