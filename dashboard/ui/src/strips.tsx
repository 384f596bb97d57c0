import { count, duration, percent, rate, shortPod } from "./format";
import { type Ns, type Series, type Target, type Unobserved, type Window, judged } from "./model";
import { availability, edges, noData, type Plot } from "./paint";
import { type Frame, Row } from "./row";

interface StripProps {
  frame: Frame;
  target: Target;
  series: Series;
  bucketWidth: Ns;
  unobserved: Unobserved[];
  windows: Window[];
  now: Ns;
}

/** Strip is one target's availability over time. */
export function Strip(props: StripProps) {
  const { frame, target: t, series, bucketWidth, unobserved, windows, now } = props;
  const evidence = !judged(t.kind);
  return (
    <Row
      frame={frame} height={evidence ? 20 : 30} testid="strip" id={t.name} title={`${t.name}\n${t.url}`}
      label={<StripLabel target={t} />} figures={<StripFigures target={t} />}
      summary={`${t.name}: ${count(t.failed)} of ${count(t.sent)} requests failed, coverage ${percent(t.coverage)}, ${windows.length} windows`}
      inputs={[series, bucketWidth, unobserved, windows, t.measured?.earliest, t.measured?.latest, now]}
      paint={(plot) => {
        paintSlots(plot, props);
        for (const u of unobserved) if (u.target === t.name) noData(plot, plot.scale.x(u.start), plot.scale.x(u.end));
        for (const w of windows) edges(plot, w);
      }}
      describe={(at) => describe(props, at)}
    />
  );
}

function StripLabel({ target: t }: { target: Target }) {
  if (t.kind === "direct" && t.pod) {
    return <><span class="kind">direct</span> <b>{shortPod(t.pod)}</b> <span class="faint">{t.podNode}</span></>;
  }
  return judged(t.kind) ? <b>{t.name}</b> : <span class="kind">{t.name}</span>;
}

function StripFigures({ target: t }: { target: Target }) {
  return (
    <>
      <span class={t.failed && judged(t.kind) ? "bad" : ""} data-testid="strip-failed">{t.failed ? `${count(t.failed)} failed` : "0 failed"}</span>
      <span class="faint"> / {count(t.sent)}</span>
    </>
  );
}

/** measured is the stretch in which the target was measured at all: before and after it there is nothing to show. */
function measured(t: Target, now: Ns): { from: Ns; to: Ns } {
  return { from: t.measured?.earliest ?? 0, to: Math.min(t.measured?.latest || now, now) };
}

/** paintSlots draws the slots, several as one (the worst counts) where they are narrower than a pixel. */
function paintSlots(plot: Plot, { target, series, bucketWidth, windows, now }: StripProps): void {
  const { scale } = plot;
  const span = measured(target, now);
  const per = Math.max(1, Math.ceil(scale.at(1) - scale.at(0)) / bucketWidth | 0); // slots per pixel
  const exact = judged(target.kind) && scale.x(bucketWidth) - scale.x(0) > 24;
  const first = Math.max(0, Math.floor(Math.max(span.from, scale.range.from) / bucketWidth / per) * per);
  for (let i = first; i * bucketWidth < Math.min(span.to, scale.range.to); i += per) {
    const [from, to] = [Math.max(i * bucketWidth, span.from), Math.min((i + per) * bucketWidth, span.to)];
    const worst = worstSlot(series, i, per);
    if (worst === undefined) noData(plot, scale.x(from), scale.x(to));
    else availability(plot, scale.x(from), scale.x(to), exact ? 0 : worst);
  }
  // Seen from near, a slot is wide and its failures are in one spot: the windows know where.
  if (exact) for (const w of windows) if (w.kind !== "slow") availability(plot, scale.x(w.start.latest), scale.x(w.end.earliest), w.share);
}

/** worstSlot is the highest share of failed requests in n slots from i, undefined if none was measured. */
function worstSlot(series: Series, i: number, n: number): number | undefined {
  let worst: number | undefined;
  for (let k = i; k < i + n; k++) {
    const sent = series.sent[k] ?? 0;
    if (sent > 0) worst = Math.max(worst ?? 0, (series.failed[k] ?? 0) / sent);
  }
  return worst;
}

function describe({ target, series, bucketWidth, unobserved, windows, now }: StripProps, at: Ns): string {
  const span = measured(target, now);
  if (at < span.from || at > span.to) return `${target.name}: not measured`;
  const gap = unobserved.find((u) => u.target === target.name && u.start <= at && at <= u.end);
  if (gap) return `${target.name}: no data (${gap.reason})`;
  const w = windows.find((w) => w.start.earliest <= at && at <= w.end.latest);
  if (w) return `${target.name}: window ${w.id}, ${count(w.failed)} of ${count(w.sent)} failed`;
  const i = Math.floor(at / bucketWidth);
  const sent = series.sent[i] ?? 0;
  if (!sent) return `${target.name}: no data`;
  return `${target.name}: ${count(series.failed[i] ?? 0)} of ${count(sent)} failed in ${duration(bucketWidth)}, ${rate(target.rate)}/s asked for`;
}
