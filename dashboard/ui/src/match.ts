import type { Event } from "./model";

/** matching keeps the events in which every word of the filter occurs, and none that is written with a minus before it. */
export function matching(events: Event[], filter: string): Event[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return events;
  const unwanted = words.filter((w) => w.length > 1 && w.startsWith("-")).map((w) => w.slice(1));
  const wanted = words.filter((w) => !(w.length > 1 && w.startsWith("-")));
  return events.filter((e) => {
    const text = textOf(e);
    return wanted.every((w) => text.includes(w)) && !unwanted.some((w) => text.includes(w));
  });
}

const textOf = (e: Event): string =>
  [e.kind, e.from, e.to, e.object?.kind, e.object?.namespace, e.object?.name, e.object?.node, e.addr, e.detail, e.actor, e.writer].join(" ").toLowerCase();
