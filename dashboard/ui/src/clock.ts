import type { Instant, Ns } from "./model";

/** Zone says in whose time of day instants are written. */
export type Zone = "utc" | "local";

const MS = 1e6; // ns

/** WIDEST_POINT is the widest bracket of an instant that is written as the point in its middle. */
const WIDEST_POINT: Ns = 1e9;

/** Clock writes instants of a run as time of day. */
export class Clock {
  /** t0 in milliseconds since 1970, with fraction. */
  constructor(readonly t0: number, readonly zone: Zone) {}

  /** name of the zone: "UTC", or "UTC+02:00" for the reader's own. */
  get name(): string {
    const minutes = this.ahead(this.t0) / 60_000;
    if (this.zone === "utc" || minutes === 0) return "UTC";
    const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
    return `UTC${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  }

  /** at writes an instant as time of day, to the millisecond unless digits says otherwise. */
  at(instant: Ns, digits = 3): string {
    return this.iso(instant).slice(11, digits ? 20 + digits : 19);
  }

  /** day writes the date of an instant. */
  day(instant: Ns = 0): string { return this.iso(instant).slice(0, 10); }

  /** bracket writes two bounds of an instant, or one where they fall together. */
  bracket(i: Instant): string {
    const [a, b] = [this.at(i.earliest), this.at(i.latest)];
    return a === b ? a : `${a} … ${b}`;
  }

  /** began writes when something began, as every report does: the middle of its bracket, or the bracket's end if that is too wide for a point. */
  began(i: Instant): string {
    if (i.latest - i.earliest > WIDEST_POINT) return `by ${this.at(i.latest)}`;
    return this.at(i.earliest + Math.floor((i.latest - i.earliest) / 2));
  }

  /** sinceRound is how long t0 lies after the last time of day that is a multiple of step. */
  sinceRound(step: Ns): Ns {
    const wall = (this.t0 + this.ahead(this.t0)) * MS;
    return ((wall % step) + step) % step;
  }

  private iso(instant: Ns): string {
    const ms = this.t0 + instant / MS;
    return new Date(ms + this.ahead(ms)).toISOString(); // 2026-03-14T02:20:58.310Z
  }

  /** ahead is how many milliseconds the zone's time of day is ahead of UTC's at ms. */
  private ahead(ms: number): number { return this.zone === "utc" ? 0 : -new Date(ms).getTimezoneOffset() * 60_000; }
}

/** Since writes instants as the time since an origin: "+1.250 s". */
export class Since extends Clock {
  constructor(t0: number, private readonly origin: Ns) { super(t0, "utc"); }
  override get name(): string { return "since start"; }
  override at(instant: Ns, digits = 3): string {
    const s = (instant - this.origin) / 1e9;
    return `${s < 0 ? "−" : "+"}${Math.abs(s).toFixed(digits)}\u00a0s`;
  }
  override sinceRound(step: Ns): Ns { return ((-this.origin % step) + step) % step; }
}
