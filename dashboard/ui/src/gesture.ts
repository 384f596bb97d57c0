const rest = 150; // ms without a step after which a gesture is over
const longest = 1_500; // ms that news wait at most

let stepped = -Infinity; // when the reader last took a step of a pan or a zoom, in milliseconds

/** step notes that the reader pans or zooms. */
export const step = (now = performance.now()): void => { stepped = now; };

/** wait is for how many milliseconds news that came at an instant are not drawn yet: a gesture is not interrupted by them, unless it takes long. */
export function wait(came: number, now = performance.now(), last = stepped): number {
  return Math.max(0, Math.min(last + rest, came + longest) - now);
}
