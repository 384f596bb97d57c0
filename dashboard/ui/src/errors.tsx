import { useMemo } from "preact/hooks";
import { duration, number } from "./format";
import type { Ns } from "./model";
import { classFill, type Plot, type Theme } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { classesOf, groups, type Together } from "./slots";
import { Swatch } from "./swatch";

const height = 58;

/** Errors stacks the failed requests of all judged targets by class over time. */
export function Errors({ frame, run }: { frame: Frame; run: Run }) {
  const { groupList, bucketWidth } = run;
  const all = run.together;
  const classes = useMemo(() => [...totals(all)].sort((a, b) => b[1] - a[1]), [all]);
  const failed = classes.reduce((sum, [, n]) => sum + n, 0);
  if (!groupList.length) return null;
  return (
    <Row
      frame={frame} height={failed ? height : 22} testid="errors" label={<>errors by class<ClassKey theme={frame.theme} classes={classes} /></>}
      figures={failed ? `${failed} failed` : "none"}
      summary={`Errors by class: ${classes.map(([name, n]) => `${n} ${name}`).join(", ") || "none"}`}
      inputs={[all, bucketWidth, failed]}
      paint={(p) => { if (failed) paintErrors(p, all, bucketWidth, classes.map(([name]) => name)); }}
      tell={(at) => tell(all, bucketWidth, at)}
    />
  );
}

const totals = (all: Together): Map<string, number> => classesOf(all, 0, all.share.length);

const lines = 3; // that the label has room for

/** ClassKey names the most frequent classes beside what they look like. */
function ClassKey({ theme, classes }: { theme: Theme; classes: [string, number][] }) {
  const named = classes.slice(0, classes.length > lines ? lines - 1 : lines);
  const others = classes.slice(named.length);
  return (
    <span class="class-key">
      {named.map(([name, n]) => <span key={name} title={`${name}: ${n}`}><Swatch theme={theme} draw={(p) => swatch(p, name)} />{name}</span>)}
      {others.length > 0 && <span title={others.map(([name, n]) => `${name}: ${n}`).join(", ")}>and {others.length} more</span>}
    </span>
  );
}

function swatch({ ctx, theme, height }: Plot, name: string): void {
  ctx.fillStyle = classFill(theme, ctx, name);
  ctx.fillRect(0, 2, 18, height - 4);
}

interface Stack { x0: number; x1: number; classes: Map<string, number>; perSecond: number }

function paintErrors(p: Plot, all: Together, slot: Ns, order: string[]): void {
  const stacks: Stack[] = [];
  groups(p.scale, slot, 0, all.share.length * slot, (first, n) => {
    const classes = classesOf(all, first, n);
    let failed = 0;
    for (const count of classes.values()) failed += count;
    if (failed) stacks.push({ x0: p.scale.x(first * slot), x1: p.scale.x((first + n) * slot), classes, perSecond: (failed * 1e9) / (n * slot) });
  });
  const most = Math.max(...stacks.map((s) => s.perSecond), 1e-9);
  for (const s of stacks) paintStack(p, s, order, (p.height - 12) / most);
  if (!stacks.length) return;
  p.ctx.fillStyle = p.theme.faint;
  p.ctx.font = "10px system-ui, sans-serif";
  p.ctx.textBaseline = "top";
  p.ctx.fillText(`top: ${number(most)}/s`, 4, 1);
}

function paintStack(p: Plot, s: Stack, order: string[], pixels: number): void {
  let failed = 0;
  for (const n of s.classes.values()) failed += n;
  let y = p.height - 1;
  for (const name of order) {
    const tall = ((s.classes.get(name) ?? 0) / failed) * s.perSecond * pixels;
    if (!tall) continue;
    p.ctx.fillStyle = classFill(p.theme, p.ctx, name);
    p.ctx.fillRect(s.x0, y - Math.max(tall, 1.5), Math.max(s.x1 - s.x0, 1.5), Math.max(tall, 1.5));
    y -= tall;
  }
}

function tell(all: Together, slot: Ns, at: Ns): string {
  const i = Math.floor(at / slot);
  if (all.share[i] === undefined) return "no data";
  const classes = [...classesOf(all, i, 1)].map(([name, n]) => `${n} ${name}`);
  return classes.length ? classes.join("\n") : `none in ${duration(slot)}`;
}
