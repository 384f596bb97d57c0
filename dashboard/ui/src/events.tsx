import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { bracket, clock, count, duration } from "./format";
import { useVisible } from "./hooks";
import type { Event } from "./model";
import { place, type Run } from "./run";

const rowHeight = 22;

/** EventLog lists everything that happened, filtered by text. Only the rows in view are in the document. */
export function EventLog({ run, filter, onFilter }: { run: Run; filter: string; onFilter: (text: string) => void }) {
  const { events, t0 } = run;
  const shown = useMemo(() => matching(events, filter), [events, filter]);
  const visible = useVisible<HTMLDivElement>(shown.length, rowHeight);
  useStickyEnd(visible.ref, shown.length, run.live);
  return (
    <section class="panel" aria-label="Events">
      <header class="panel-head">
        <h2>Events</h2>
        <input
          type="search" placeholder="Filter: words that must occur" aria-label="Filter events" data-testid="event-filter"
          value={filter} onInput={(e) => onFilter(e.currentTarget.value)}
        />
        <span class="faint" data-testid="event-count">{shown.length === events.length ? count(events.length) : `${count(shown.length)} of ${count(events.length)}`}</span>
      </header>
      <div class="event-log" role="table" aria-rowcount={shown.length} tabIndex={0} ref={visible.ref} onScroll={visible.onScroll} data-testid="event-log">
        <div style={{ height: `${shown.length * rowHeight}px` }}>
          <div style={{ transform: `translateY(${visible.first * rowHeight}px)` }}>
            {shown.slice(visible.first, visible.last).map((e) => <EventRow key={e.id} e={e} t0={t0} />)}
          </div>
        </div>
      </div>
    </section>
  );
}

function EventRow({ e, t0 }: { e: Event; t0: number }) {
  const what = [e.from, e.to].filter(Boolean).join(" → ");
  const name = e.object ? [e.object.kind, e.object.name].filter(Boolean).join(" ") : "";
  return (
    <div class={`event-row ${e.kind}`} role="row" data-testid="event-row" data-event-id={e.id} style={{ height: `${rowHeight}px` }}>
      <span role="cell" class="mono" title={e.at && bracket(t0, e.at)}>{clock(t0, place(e))}</span>
      <span role="cell" class="mono faint">+{duration(place(e))}</span>
      <span role="cell" class="event-kind">{e.kind}</span>
      <span role="cell" title={name}>{name}</span>
      <span role="cell" title={what}>{what}</span>
      <span role="cell" title={e.detail}>{e.detail}{e.code ? <span class="faint"> ({e.code})</span> : null}</span>
      <span role="cell" class="faint" title={e.writer}>{e.writer}</span>
    </div>
  );
}

/** matching keeps the events in which every word of the filter occurs. */
function matching(events: Event[], filter: string): Event[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return events;
  return events.filter((e) => {
    const text = [e.kind, e.from, e.to, e.object?.kind, e.object?.namespace, e.object?.name, e.object?.node, e.addr, e.detail, e.writer].join(" ").toLowerCase();
    return words.every((w) => text.includes(w));
  });
}

/** useStickyEnd keeps a live log at its end while the reader is there, and leaves it alone otherwise. */
function useStickyEnd(ref: { current: HTMLElement | null }, rows: number, live: boolean): void {
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
