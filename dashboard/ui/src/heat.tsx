import { useMemo, useState } from "preact/hooks";
import { duration, plural } from "./format";
import { useDetails } from "./hooks";
import { above, extent, type Histogram, histogram, quantile, slotOf } from "./latency";
import type { Ns, Series, Source, Target } from "./model";
import { heat, noData, type Plot, widthOf } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { groups as groupsOf } from "./slots";
import { fromWhere, type TargetGroup } from "./sources";
import { measured } from "./strips";

const height = 120;
const labelHeight = 20; // px between two labels of the scale
const columnWidth = 3; // px at least: several slots together tell more than a stripe each
const rounds: Ns[] = [1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, ...[1e4, 1e5, 1e6, 1e7, 1e8, 1e9].flatMap((n) => [5 * n, 2 * n])]; // powers of ten first
/** Histograms of groups of slots. Groups stand still while the reader pans, so most of them are needed again. */
const known = new WeakMap<Series, Map<string, Histogram>>();

function histograms(series: Series, first: number, count: number): Histogram {
  let all = known.get(series);
  if (!all) known.set(series, (all = new Map()));
  const key = `${first} ${count}`;
  let one = all.get(key);
  if (!one) {
    if (all.size > 4000) all.clear();
    all.set(key, (one = histogram(series, first, count)));
  }
  return one;
}

const lines = [
  { name: "max", q: 1, dash: [1, 3], width: 1 },
  { name: "p99", q: 0.99, dash: [4, 2], width: 1 },
  { name: "p50", q: 0.5, dash: [], width: 1.2 },
];

/** Latency is how long the answers of one target took, from when the request was due: how many took how long, and quantiles over it. */
export function Latency({ frame, run }: { frame: Frame; run: Run }) {
  const groups = run.groupList;
  const [chosen, setChosen] = useState<Chosen>({ group: "" });
  const group = groups.find((g) => g.name === chosen.group) ?? groups[0];
  const target = group?.members.find((t) => t.node === chosen.node) ?? group?.members[0];
  const part = `series/${target?.name}`;
  useDetails(group && run, `members/${group?.name}`);
  useDetails(target && run, part);
  const series = target && run.has(part) ? run.series(target.name) : undefined;
  const bounds = useMemo(() => series && extent(series), [series]);
  if (!group) return null;
  if (!target || !series) return <p class="note faint" data-testid="loading">Loading the latency of {group.name}.</p>;
  const { bucketWidth, now } = run;
  return (
    <Row
      frame={frame} height={bounds ? height : 22} testid="latency" id={target.name}
      label={<Label groups={groups} group={group} target={target} sources={run.sources} onChoose={setChosen} />}
      figures={bounds ? <Figures target={target} /> : "no answers"}
      summary={`Latency of ${target.name} from due: ${quantiles(target)}`}
      inputs={[series, bounds, bucketWidth, target.name, now]}
      paint={(p) => { if (bounds) paintLatency(p, { series, slot: bucketWidth, span: measured(target, now), low: bounds.low - 3, high: bounds.high + 5 }); }}
      tell={(at) => tell(series, bucketWidth, at)}
    />
  );
}

/** A Chosen is the target that the reader chose: what is measured, and from which node. */
interface Chosen { group: string; node?: string | undefined }

interface LabelProps { groups: TargetGroup[]; group: TargetGroup; target: Target; sources: Source[]; onChoose: (target: Chosen) => void }

/** Label has what is measured, and from where, to choose from. Another Service is shown as the same node sees it. */
function Label({ groups, group, target, sources, onChoose }: LabelProps) {
  return (
    <span class="latency-label">
      latency from due
      {groups.length > 1 ? (
        <select aria-label="Target whose latency is shown" data-testid="latency-target" value={group.name} onChange={(e) => onChoose({ group: e.currentTarget.value, node: target.node })}>
          {groups.map((g) => <option key={g.name} value={g.name}>{g.name}</option>)}
        </select>
      ) : <b>{group.name}</b>}
      {group.members.length > 1 && (
        <select aria-label="Node whose latency is shown" data-testid="latency-node" value={target.name} onChange={(e) => onChoose({ group: group.name, node: group.members.find((t) => t.name === e.currentTarget.value)?.node })}>
          {group.members.map((t) => <option key={t.name} value={t.name}>{fromWhere(t, sources)}</option>)}
        </select>
      )}
      <span class="faint line-key">━ p50  ╍ p99  ┈ max</span>
      <span class="faint line-key shade-key">shade: how many answers</span>
    </span>
  );
}

const quantiles = (t: Target): string => (t.latency ? `p50 ${duration(t.latency.p50)}, p99 ${duration(t.latency.p99)}, max ${duration(t.latency.max)}` : "no answers");

function Figures({ target: { latency: l } }: { target: Target }) {
  if (!l) return null;
  return <span class="stacked"><span>p50 {duration(l.p50)}</span><span>p99 {duration(l.p99)}</span><span>max {duration(l.max)}</span></span>;
}

interface Shown { series: Series; slot: Ns; span: { from: Ns; to: Ns }; low: number; high: number }

interface Column { x0: number; x1: number; histogram: Histogram; sent: number }

function paintLatency(p: Plot, shown: Shown): void {
  const { series, slot, span, low, high } = shown;
  const columns: Column[] = [];
  groupsOf(p.scale, slot, span.from, span.to, (first, n) => {
    let sent = 0;
    for (let i = first; i < first + n; i++) sent += series.sent[i] ?? 0;
    columns.push({ x0: p.scale.x(first * slot), x1: p.scale.x((first + n) * slot), histogram: histograms(series, first, n), sent });
  }, columnWidth);
  const y = (latencySlot: number): number => p.height - ((latencySlot - low) / (high - low)) * p.height;
  for (const c of columns) if (!c.sent) noData(p, c.x0, Math.min(c.x1, p.scale.x(span.to)));
  paintCells(p, columns, low, high);
  for (const line of lines) paintLine(p, columns, y, line);
  paintScale(p, y, low, high);
}

/** paintCells colours each latency slot of each column by how many answers it holds, on a logarithmic scale. */
function paintCells(p: Plot, columns: Column[], low: number, high: number): void {
  if (!columns.length) return;
  const rows = high - low;
  const most = Math.max(1, ...columns.map((c) => c.histogram.most));
  const image = p.ctx.createImageData(columns.length, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = heat(p.theme);
  const scale = (colours.length - 1) / Math.log1p(most);
  columns.forEach(({ histogram: { counts } }, column) => {
    for (let slot = Math.max(low, 0); slot < Math.min(counts.length, high); slot++) {
      const n = counts[slot]!;
      if (n) pixels[(high - 1 - slot) * columns.length + column] = colours[Math.round(Math.log1p(n) * scale)]!;
    }
  });
  const cells = new OffscreenCanvas(columns.length, rows);
  cells.getContext("2d")!.putImageData(image, 0, 0);
  p.ctx.imageSmoothingEnabled = false;
  const [from, to] = [columns[0]!.x0, columns.at(-1)!.x1];
  p.ctx.drawImage(cells, from, 0, to - from, p.height);
}

/** paintScale writes round latencies at their heights, as many as there is room for. */
function paintScale({ ctx, scale, theme }: Plot, y: (slot: number) => number, low: number, high: number): void {
  ctx.font = "10px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  const taken: number[] = [];
  for (const round of rounds) {
    const slot = slotOf(round);
    const at = Math.round(y(slot)) + 0.5;
    if (slot <= low + 1 || slot >= high - 1 || taken.some((t) => Math.abs(t - at) < labelHeight)) continue;
    taken.push(at);
    const text = duration(round);
    ctx.fillStyle = theme.line;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(0, at, scale.width, 1);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.name === "light" ? "#ffffffd0" : "#171c21d0";
    ctx.fillRect(2, at - 6, widthOf(ctx, text) + 4, 12);
    ctx.fillStyle = theme.faint;
    ctx.fillText(text, 4, at + 0.5);
  }
}

function paintLine({ ctx, theme }: Plot, columns: Column[], y: (slot: number) => number, line: (typeof lines)[number]): void {
  ctx.beginPath();
  let pen = false;
  for (const c of columns) {
    const slot = quantile(c.histogram, line.q);
    if (slot === undefined) {
      pen = false;
      continue;
    }
    const at = y(slot + 1); // the slot's upper end: never less than it was
    if (pen) ctx.lineTo(c.x0, at);
    else ctx.moveTo(c.x0, at);
    ctx.lineTo(c.x1, at);
    pen = true;
  }
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = line.width;
  ctx.setLineDash(line.dash);
  ctx.stroke();
  ctx.setLineDash([]);
}

function tell(series: Series, slot: Ns, at: Ns): string {
  const i = Math.floor(at / slot);
  if (!series.sent[i]) return "no data";
  const h = histogram(series, i, 1);
  if (!h.total) return "no answer";
  const of = (q: number) => duration(above(quantile(h, q)!));
  return `p50 ≤ ${of(0.5)}\np99 ≤ ${of(0.99)}\nmax ≤ ${of(1)}\nof ${plural(h.total, "answer")}`;
}
