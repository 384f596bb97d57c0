import type { Ns } from "./model";
import { ordered, type Range, within } from "./scale";

/** What a drag on the overview takes hold of: an edge of the part in view, all of it, or a new part. */
export type Grip = "from" | "to" | "move" | "new";

const reach = 6; // px

/** grip tells what lies at x, where the part in view reaches from a to b. A part that is all there is cannot be moved. */
export function grip(x: number, a: number, b: number, all: boolean): Grip {
  if (all) return "new";
  if (Math.abs(x - a) <= reach && x < (a + b) / 2) return "from";
  if (Math.abs(x - b) <= reach) return "to";
  return x > a && x < b ? "move" : "new";
}

/** dragged is the part in view after a drag from one instant to another. */
export function dragged(grip: Grip, range: Range, start: Ns, at: Ns, whole: Range): Range {
  switch (grip) {
    case "from": return within(ordered(at, range.to), whole);
    case "to": return within(ordered(range.from, at), whole);
    case "move": return within({ from: range.from + at - start, to: range.to + at - start }, whole);
    case "new": return within(ordered(start, at), whole);
  }
}
