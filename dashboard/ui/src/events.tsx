import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Clock } from "./clock";
import { duration, middleCut, plural } from "./format";
import { useVisible } from "./hooks";
import { matching } from "./match";
import type { Event, Ns } from "./model";
import { place, type Run } from "./run";

const rowHeight = 22;
const columns = ["Time", "After start", "Kind", "Object", "Change", "Detail", "Written by"];

interface EventLogProps {
  run: Run;
  clock: Clock;
  filter: string;
  selected: number | undefined;
  begins: Ns | undefined; // the instant at which the list begins: what came before is above
  onFilter: (text: string) => void;
  onSelect: (e: Event) => void;
}

/** EventLog lists everything that happened, filtered by text. Only the rows in view are in the document. */
export function EventLog({ run, clock, filter, selected, begins, onFilter, onSelect }: EventLogProps) {
  const { events } = run;
  const shown = useMemo(() => matching(events, filter), [events, filter]);
  const visible = useVisible<HTMLDivElement>(shown.length, rowHeight);
  const at = selected === undefined ? -1 : shown.findIndex((e) => e.id === selected);
  useStickyEnd(visible.ref, shown.length, run.live && at < 0);
  useInView(visible.ref, at);
  useBegin(visible.ref, at < 0 && begins !== undefined && !run.live && !run.partial ? shown.findIndex((e) => place(e) >= begins) : -1, begins);
  const step = (e: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[e.key];
    if (by === undefined || !shown.length) return;
    e.preventDefault();
    e.stopPropagation();
    const next = at < 0 ? visible.first : at + by;
    onSelect(shown[Math.min(Math.max(next, 0), shown.length - 1)]!);
  };
  return (
    <section class="panel" aria-label="Events">
      <header class="panel-head">
        <h2>Events</h2>
        <input
          type="search" placeholder="Filter (/): words, -word to leave out" aria-label="Filter events" data-testid="event-filter"
          value={filter} onInput={(e) => onFilter(e.currentTarget.value)}
          onKeyDown={(e) => { if (e.key === "Escape") e.currentTarget.blur(); }}
        />
        <span class="faint" data-testid="event-count" role="status">{shown.length === events.length ? events.length : `${shown.length} of ${events.length}`}</span>
        {run.partial && <span class="faint" data-testid="events-loading">More are loading.</span>}
        {!!run.counts?.targetEvents && <span class="faint" data-testid="target-events">Without {plural(run.counts.targetEvents, "event")} of targets, which timeline.json has</span>}
        <span class="faint hint">Select one to see it on the timeline</span>
      </header>
      <div
        class="event-log" role="grid" aria-label="Events" aria-rowcount={shown.length + 1} aria-activedescendant={at < 0 ? undefined : `event-${selected}`}
        tabIndex={0} ref={visible.ref} onScroll={visible.onScroll} onKeyDown={step} data-testid="event-log"
      >
        <div class="event-row event-head" role="row" aria-rowindex={1}>{columns.map((c) => <span key={c} role="columnheader" class={c === "After start" ? "since" : ""}>{c === "Time" ? clock.name : c}</span>)}</div>
        <div role="presentation" style={{ height: `${shown.length * rowHeight}px` }}>
          <div role="presentation" style={{ transform: `translateY(${visible.first * rowHeight}px)` }}>
            {shown.slice(visible.first, visible.last).map((e, i) => <EventRow key={e.id} e={e} index={visible.first + i} clock={clock} selected={e.id === selected} onSelect={onSelect} />)}
          </div>
        </div>
      </div>
    </section>
  );
}

interface EventRowProps { e: Event; index: number; clock: Clock; selected: boolean; onSelect: (e: Event) => void }

function EventRow({ e, index, clock, selected, onSelect }: EventRowProps) {
  const what = [e.from, e.to].filter(Boolean).join(" → ");
  const name = e.object ? [e.object.kind, e.object.name].filter(Boolean).join(" ") : "";
  return (
    <div
      class={`event-row ${e.kind}${selected ? " selected" : ""}`} role="row" id={`event-${e.id}`} aria-rowindex={index + 2} aria-selected={selected}
      data-testid="event-row" data-event-id={e.id} style={{ height: `${rowHeight}px` }} onClick={() => onSelect(e)}
    >
      <span role="gridcell" class="mono" title={e.at && clock.bracket(e.at)}>{clock.at(place(e))}</span>
      <span role="gridcell" class="mono faint since">+{duration(place(e))}</span>
      <span role="gridcell" class="event-kind">{e.kind}</span>
      <span role="gridcell" title={name}>{[e.object?.kind, middleCut(e.object?.name ?? "")].filter(Boolean).join(" ")}</span>
      <span role="gridcell" title={what}>{what}</span>
      <span role="gridcell" title={e.detail}>{e.detail}{more(e) ? <span class="faint"> ({more(e)})</span> : null}</span>
      <span role="gridcell" class="faint" title={e.writer}>{e.writer}</span>
    </div>
  );
}

/** stretches are kinds of events that lasted from the earlier bound of their instant to the later one. */
const stretches = new Set(["prober-stall", "watch-gap"]);

/** more is who made a change, and the numbers that an event carries, each with its name. */
function more(e: Event): string {
  return [
    e.actor && `by ${e.actor}`,
    e.port && `port ${e.port}`,
    e.exitCode !== undefined && `exit code ${e.exitCode}`,
    e.grace !== undefined && `grace period ${duration(e.grace)}`,
    e.count && `${e.count} times`,
    e.status && `status ${e.status}`,
    stretches.has(e.kind) && e.at && `for ${duration(e.at.latest - e.at.earliest)}`,
  ].filter(Boolean).join(", ");
}

/** useStickyEnd keeps a live log at its end while the reader is there, and leaves it alone otherwise. */
function useStickyEnd(ref: RefObject<HTMLElement | null>, rows: number, live: boolean): void {
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const log = ref.current;
    if (!log) return;
    if (live && atEnd.current) log.scrollTop = log.scrollHeight;
    const watch = () => { atEnd.current = log.scrollTop + log.clientHeight >= log.scrollHeight - 2 * rowHeight; };
    log.addEventListener("scroll", watch, { passive: true });
    return () => log.removeEventListener("scroll", watch);
  }, [rows, live]);
}

/** useBegin scrolls the log to a row whenever the list is to begin at another instant. */
function useBegin(ref: RefObject<HTMLElement | null>, row: number, begins: Ns | undefined): void {
  const begun = useRef<Ns>(undefined);
  useLayoutEffect(() => {
    if (!ref.current || row < 0 || begun.current === begins) return;
    begun.current = begins;
    ref.current.scrollTop = row * rowHeight;
  }, [row, begins]);
}

/** useInView scrolls the log to a row when it is selected. */
function useInView(ref: RefObject<HTMLElement | null>, row: number): void {
  useLayoutEffect(() => {
    const log = ref.current;
    if (!log || row < 0) return;
    const top = row * rowHeight;
    const room = log.clientHeight - 2 * rowHeight; // the column names stay on top
    if (top < log.scrollTop) log.scrollTop = top;
    else if (top > log.scrollTop + room) log.scrollTop = top - room / 2;
  }, [row]);
}
