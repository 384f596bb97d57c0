import type { Incident, KeepServing, Ns } from "./model";

/** A CurvePoint is between how many failures would be left, had each Pod served so much longer. */
export interface CurvePoint { longer: Ns; min: number; max: number }

/** curve is what was seen, which is what no longer serving leaves, and then each length that is known. */
export const curve = (k: KeepServing): CurvePoint[] => [{ longer: 0, min: k.failed, max: k.failed }, ...k.left];

/** leftText is how many failures a length leaves. */
export const leftText = ({ min, max }: CurvePoint): string => (min === max ? `${min}` : `${min} to ${max}`);

/** advisedOf is how long Pods should serve on after SIGTERM: the longest preStop sleep that is advised, in whole seconds as the answer says it; undefined where none is. */
export function advisedOf(incidents: Pick<Incident, "causes">[]): Ns | undefined {
  const all = incidents.flatMap((i) => i.causes).flatMap(({ sleep }) => (sleep ? [Math.ceil((sleep.measured + sleep.margin) / 1e9) * 1e9] : []));
  return all.length ? Math.max(...all) : undefined;
}

/** A Chart places lengths and failures in a picture: to the right serving longer, upwards more failures. */
export class Chart {
  readonly longest: Ns;
  readonly most: number;

  /** The axis reaches from 0 to the longest length of the curve, and to what is advised. */
  constructor(readonly points: CurvePoint[], readonly width: number, readonly height: number, advised: Ns = 0) {
    this.longest = Math.max(points.at(-1)!.longer, advised) || 1;
    this.most = Math.max(1, points[0]!.max);
  }

  x(longer: Ns): number { return round((longer / this.longest) * this.width); }
  y(failures: number): number { return round(this.height - (failures / this.most) * this.height); }

  /** outline is the area between the bounds, as the points of an SVG polygon. */
  outline(): string {
    const upper = this.points.map((p) => `${this.x(p.longer)},${this.y(p.max)}`);
    const lower = this.points.map((p) => `${this.x(p.longer)},${this.y(p.min)}`).reverse();
    return [...upper, ...lower].join(" ");
  }

  /** xTicks and yTicks are round values on the axes. */
  xTicks(): Ns[] { return upTo(this.longest, xSteps.find((s) => this.longest / s <= this.width / tickRoom) ?? this.longest / 5); }
  yTicks(): number[] { return upTo(this.most, ySteps.find((s) => this.most / s <= 4) ?? this.most); }
}

const tickRoom = 64; // px
const xSteps: Ns[] = [1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10];
const ySteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6];

const upTo = (most: number, step: number): number[] => Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);

const round = (x: number): number => Math.round(x * 10) / 10;
