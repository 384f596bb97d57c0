import type { KeepServing, Ns } from "./model";

/** A CurvePoint is between how many failures would be left, had each Pod served so much longer. */
export interface CurvePoint { longer: Ns; min: number; max: number }

/** curve is what was seen, which is what no longer serving leaves, and then each length that is known. */
export const curve = (k: KeepServing): CurvePoint[] => [{ longer: 0, min: k.failed, max: k.failed }, ...k.left];

/** leftText is how many failures a length leaves. */
export const leftText = ({ min, max }: CurvePoint): string => (min === max ? `${min}` : `${min} to ${max}`);

/** outline is the area between the bounds, as the points of an SVG polygon of a size: to the right serving longer, upwards more failures. */
export function outline(points: CurvePoint[], width: number, height: number): string {
  const [longest, most] = [points.at(-1)!.longer || 1, Math.max(1, points[0]!.max)];
  const at = (longer: Ns, failures: number): string => `${round((longer / longest) * width)},${round(height - (failures / most) * height)}`;
  const upper = points.map((p) => at(p.longer, p.max));
  const lower = points.map((p) => at(p.longer, p.min)).reverse();
  return [...upper, ...lower].join(" ");
}

const round = (x: number): number => Math.round(x * 10) / 10;
