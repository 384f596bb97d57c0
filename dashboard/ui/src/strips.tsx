import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { coverage, duration, shortPod } from "./format";
import { reasonText } from "./health";
import { useDetails } from "./hooks";
import { type Ns, type Pod, type Series, type Target, type Unobserved, type Window, judged } from "./model";
import { availability, noData, type Plot, whiskers, whiskerSpace } from "./paint";
import { type Frame, Row } from "./row";
import type { Run } from "./run";
import { type Failing, failing, groups, worst } from "./slots";

interface StripProps {
  frame: Frame;
  run: Run;
  target: Target;
  label?: ComponentChildren; // instead of its name
  windows: Window[];
}

interface Shown { target: Target; ends: Ns; series: Series | undefined; bucketWidth: Ns; unobserved: Unobserved[]; windows: Window[]; now: Ns; live: boolean }

/** Heights of strips: of judged targets, and of those that are evidence. */
export const stripHeight = { judged: 30, evidence: 20 };

/** Strip is one target's availability over time. */
export function Strip(props: StripProps) {
  const { frame, run, target: t, windows } = props;
  const part = `series/${t.name}`;
  useDetails(run, part);
  const { bucketWidth, now, live } = run;
  const series = run.has(part) ? run.series(t.name) : undefined; // undefined: it is on its way
  const unobserved = useMemo(() => run.unobserved.filter((u) => u.target === t.name), [run.unobserved, t.name]);
  const ends = useMemo(() => endOf(run.pods, t), [run.pods, t]);
  const shown: Shown = { target: t, ends, series, bucketWidth, unobserved, windows, now, live };
  return (
    <Row
      frame={frame} height={judged(t.kind) ? stripHeight.judged : stripHeight.evidence} testid="strip" id={t.name} title={`${t.name}\n${t.url}`}
      label={props.label ?? <StripLabel target={t} service={run.services.length > 1 ? t.service : undefined} />} figures={<StripFigures target={t} />}
      summary={`${t.name}: ${t.failed} of ${t.sent} requests failed, coverage ${coverage(t.coverage)}, ${windows.length} windows`}
      inputs={[series, bucketWidth, unobserved, windows, t.measured?.earliest, t.measured?.latest, now, ends]}
      paint={(row) => {
        const plot = judged(t.kind) ? { ...row, top: whiskerSpace } : row;
        paintSlots(plot, shown);
        for (const u of unobserved) noData(plot, plot.scale.x(u.start), plot.scale.x(u.end));
        for (const w of windows) whiskers(plot, w);
      }}
      tell={(at) => tell(shown, at)}
    />
  );
}

/** StripLabel names a target; an endpoint's own with the Service, where there are several. */
function StripLabel({ target: t, service }: { target: Target; service: string | undefined }) {
  if (t.kind === "direct" && t.pod) {
    return <><span class={service ? "faint" : "kind"}>{service?.split("/").at(-1) ?? "direct"}</span> <b>{shortPod(t.pod)}</b> <span class="faint">{t.podNode}</span></>;
  }
  return judged(t.kind) ? <b class="two-lines">{t.name}</b> : <span class="kind">{t.name}</span>;
}

function StripFigures({ target: t }: { target: Target }) {
  return (
    <>
      <span class={t.failed && judged(t.kind) ? "bad" : ""} data-testid="strip-failed">{t.failed} failed</span>
      <span class="faint"> / {t.sent}</span>
    </>
  );
}

/** endOf is when the Pod of a target was asked to end; never, of other targets and of Pods that stay. */
function endOf(pods: Pod[], { podUID }: Target): Ns {
  const pod = podUID ? pods.find((p) => p.uid === podUID) : undefined;
  return pod?.states?.find((s) => s.state.startsWith("terminating"))?.start ?? Infinity;
}

/** measured is the stretch in which a target was measured at all: before and after it there is nothing to show. */
export function measured(t: Target, now: Ns): { from: Ns; to: Ns } {
  return { from: t.measured?.earliest ?? 0, to: Math.min(t.measured?.latest || now, now) };
}

/** paintSlots draws the slots, several as one (the worst counts) where they are narrower than a pixel. */
function paintSlots(plot: Plot, { target, ends, series, bucketWidth, windows, now }: Shown): void {
  if (!series) return;
  const { scale } = plot;
  const span = measured(target, now);
  const near = judged(target.kind) && scale.x(bucketWidth) - scale.x(0) > 2;
  const inside: Failing[] = []; // seen from near, a slot is wide and its failures are in one spot
  const bars = new Bars(plot);
  groups(scale, bucketWidth, span.from, span.to, (first, n) => {
    const share = worst(series, first, n);
    const [from, to] = [Math.max(first * bucketWidth, span.from), Math.min((first + n) * bucketWidth, span.to)];
    if (near && share) inside.push(...failing(windows, from, to, share));
    bars.add(from, to, near && share ? 0 : share, to > ends);
  });
  bars.flush();
  for (const f of inside) availability(plot, scale.x(f.from), scale.x(f.to), f.share);
}

/** Bars draws stretches that touch and look the same as one. */
export class Bars {
  private from: Ns = 0;
  private to: Ns = 0;
  private share: number | undefined;
  private gone = false;
  constructor(private readonly plot: Plot) {}

  /** add takes the next stretch: the share that failed, or undefined where nothing was measured, and whether what fails is to be gone. */
  add(from: Ns, to: Ns, share: number | undefined, gone = false): void {
    if (this.to === from && this.share === share && this.gone === gone) {
      this.to = to;
      return;
    }
    this.flush();
    [this.from, this.to, this.share, this.gone] = [from, to, share, gone];
  }

  flush(): void {
    if (this.to <= this.from) return;
    const [x0, x1] = [this.plot.scale.x(this.from), this.plot.scale.x(this.to)];
    if (this.share === undefined) noData(this.plot, x0, x1);
    else availability(this.plot, x0, x1, this.share, this.gone);
  }
}

function tell({ target, series, bucketWidth, unobserved, windows, now, live }: Shown, at: Ns): string {
  if (!series) return "loading";
  const span = measured(target, now);
  if (live && at > span.to && at <= now && judged(target.kind)) return "not known yet";
  if (at < span.from || at > span.to) return "not measured";
  const gap = unobserved.find((u) => u.start <= at && at <= u.end);
  if (gap) return `no data: ${reasonText(gap.reason)}`;
  const w = windows.find((w) => w.start.earliest <= at && at <= w.end.latest);
  if (w) return w.kind === "slow" ? `window ${w.id}: ${w.slow ?? 0} of ${w.sent} answered late` : `window ${w.id}: ${w.failed} of ${w.sent} failed`;
  const i = Math.floor(at / bucketWidth);
  const sent = series.sent[i] ?? 0;
  if (!sent) return "no data";
  return `${series.failed[i] ?? 0} of ${sent} failed in ${duration(bucketWidth)}`;
}
