import { useMemo } from "preact/hooks";
import { plural } from "./format";
import type { Held, Ns, Target } from "./model";
import { availability, type Plot, whiskers, whiskerSpace } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { type Standing, standing, standingAt, standingText } from "./standing";
import { measured } from "./strips";

const height = 40;

/** HeldRow is how many of the connections that were kept open stood, and when some were cut. */
export function HeldRow({ frame, run, held }: { frame: Frame; run: Run; held: Held }) {
  const steps = useMemo(() => standing(held), [held]);
  const target = run.targets.find((t) => t.name === held.target);
  const span = spanOf(target, run.now);
  return (
    <Row
      frame={frame} height={height} testid="held-row" id={held.target} title={held.target} label={<span class="two-lines"><b>{held.target}</b> <span class="faint">connections</span></span>}
      figures={<><span class={held.cut ? "bad" : ""}>{held.cut} cut</span><span class="faint"> / {held.connections}</span></>}
      summary={`${held.target}: ${held.cut} of ${plural(held.connections, "connection")} were cut, ${held.standing} stand`}
      inputs={[steps, held, span.from, span.to]}
      paint={(row) => {
        const plot = { ...row, top: whiskerSpace };
        paintStanding(plot, steps, held.stood, span);
        for (const w of held.windows) whiskers(plot, w);
      }}
      tell={(at) => (at < span.from || at > span.to ? "not measured" : `${standingAt(steps, at)} of ${held.connections} stand`)}
    />
  );
}

const spanOf = (target: Target | undefined, now: Ns): { from: Ns; to: Ns } => (target ? measured(target, now) : { from: 0, to: now });

interface Drawn { x0: number; x1: number; count: number; text: string }

/** paintStanding draws the share that stands from below, what was cut and is not back from above, and how many stand. */
function paintStanding(p: Plot, steps: Standing[], stood: number, span: { from: Ns; to: Ns }): void {
  const drawn = steps.flatMap((s, i): Drawn[] => {
    const [from, to] = [Math.max(s.at, span.from), Math.min(steps[i + 1]?.at ?? span.to, span.to)];
    if (to < p.scale.range.from || from > p.scale.range.to || to < from) return [];
    const [x0, x1] = [Math.max(p.scale.x(from), 0), Math.min(p.scale.x(to), p.scale.width)];
    return [{ x0, x1, count: s.count, text: standingText(steps, i, x1 - x0) }];
  });
  for (const { x0, x1, count } of drawn) availability(p, x0, x1, stood ? 1 - count / stood : 0);
  p.ctx.fillStyle = p.theme.text;
  p.ctx.font = "600 11px system-ui, sans-serif";
  p.ctx.textBaseline = "middle";
  let last = -Infinity; // px: up to where a figure is written
  for (const { x0, text } of drawn) {
    if (!text || x0 < last) continue;
    p.ctx.fillText(text, x0 + 4, p.height - 11);
    last = x0 + 4 + p.ctx.measureText(text).width;
  }
}
