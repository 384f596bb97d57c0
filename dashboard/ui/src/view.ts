import type { Ns } from "./model";
import type { Range } from "./scale";

/** A View is what the reader chose to look at. It stands in the address, so that it can be passed on. */
export interface View {
  range?: Range; // absent: what the page opens on
  whole?: boolean; // the whole run instead
  incident?: number;
  window?: number;
  event?: number;
  measure?: Range;
  filter?: string;
}

/** encode writes a view as the address's fragment, without the #; "" for the view a fresh page has. */
export function encode(view: View): string {
  const parts = new URLSearchParams();
  if (view.incident !== undefined) parts.set("incident", String(view.incident));
  if (view.window !== undefined) parts.set("window", String(view.window));
  if (view.event !== undefined) parts.set("event", String(view.event));
  if (view.range) parts.set("range", stretch(view.range));
  else if (view.whole) parts.set("range", all);
  if (view.measure) parts.set("measure", stretch(view.measure));
  if (view.filter) parts.set("filter", view.filter);
  return parts.toString();
}

/** decode reads what encode wrote; what it cannot read is left out. */
export function decode(fragment: string): View {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const view: View = {};
  const [incident, window, event] = [whole(parts.get("incident")), whole(parts.get("window")), whole(parts.get("event"))];
  const [range, measure] = [readStretch(parts.get("range")), readStretch(parts.get("measure"))];
  const filter = parts.get("filter");
  if (incident !== undefined) view.incident = incident;
  if (window !== undefined) view.window = window;
  if (event !== undefined) view.event = event;
  if (range) view.range = range;
  else if (parts.get("range") === all) view.whole = true;
  if (measure) view.measure = measure;
  if (filter) view.filter = filter;
  return view;
}

const all = "all";

/** A stretch of time in seconds after t0, exact to the nanosecond: "10.44..12.9". */
const stretch = (r: Range): string => `${seconds(r.from)}..${seconds(r.to)}`;

const seconds = (at: Ns): string => (at / 1e9).toFixed(9).replace(/\.?0+$/, "");

function readStretch(text: string | null): Range | undefined {
  const match = /^(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (!match) return undefined;
  const [from, to] = [Math.round(Number(match[1]) * 1e9), Math.round(Number(match[2]) * 1e9)];
  return from < to ? { from, to } : undefined;
}

const whole = (text: string | null): number | undefined => (text && /^\d{1,9}$/.test(text) ? Number(text) : undefined);
