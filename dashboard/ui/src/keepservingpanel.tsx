import { useState } from "preact/hooks";
import { duration, plural } from "./format";
import { advisedOf, Chart, type CurvePoint, curve, leftText } from "./keepserving";
import { useWidth } from "./hooks";
import type { Ns } from "./model";
import type { Run } from "./run";

const [widest, narrowest, height] = [560, 180, 180]; // px
const margin = { left: 44, right: 24, top: 20, bottom: 36 };

/** KeepServingPanel shows what would be left of the failures, had each Pod served longer after SIGTERM. */
export function KeepServingPanel({ run: { keepServing: k, incidents } }: { run: Run }) {
  if (!k) return null;
  const points = curve(k);
  const advised = advisedOf(incidents);
  return (
    <section class="panel" aria-label="Keep serving" data-testid="keep-serving">
      <header class="panel-head">
        <h2>Keep serving</h2>
        <span class="faint">How many requests would have failed, had each Pod served longer after SIGTERM{k.others > 0 && `; ${plural(k.others, "other failure")} it is not known to mend`}</span>
      </header>
      <Curve points={points} advised={advised} />
    </section>
  );
}

/** Curve is the chart, with the values of the point that the pointer is nearest to. */
function Curve({ points, advised }: { points: CurvePoint[]; advised: Ns | undefined }) {
  const [at, setAt] = useState<CurvePoint>();
  const [room, outer] = useWidth<HTMLDivElement>();
  const width = Math.min(Math.max(outer - margin.left - margin.right, narrowest), widest);
  const [full, tall] = [width + margin.left + margin.right, height + margin.top + margin.bottom];
  const chart = new Chart(points, width, height, advised);
  const none = points.find((p) => p.max === 0);
  const pick = (e: PointerEvent): void => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    const x = e.clientX - box.left - margin.left;
    setAt(points.reduce((best, p) => (Math.abs(chart.x(p.longer) - x) < Math.abs(chart.x(best.longer) - x) ? p : best)));
  };
  return (
    <div class="keep-serving">
      <div ref={room} />
      <svg
        width={full} height={tall} viewBox={`${-margin.left} ${-margin.top} ${full} ${tall}`} role="img" onPointerMove={pick} onPointerLeave={() => setAt(undefined)}
        aria-label={`of ${points[0]!.max} failures, ${leftText(points.at(-1)!)} are left after ${duration(points.at(-1)!.longer)}${advised ? `; advised are ${duration(advised)}` : ""}`}
      >
        {chart.yTicks().map((n) => <g key={n}><line class="tick" x1={0} x2={width} y1={chart.y(n)} y2={chart.y(n)} /><text x={-6} y={chart.y(n) + 4} text-anchor="end">{n}</text></g>)}
        {chart.xTicks().map((t) => <g key={t}><line class="tick" x1={chart.x(t)} x2={chart.x(t)} y1={height} y2={height + 4} /><text x={chart.x(t)} y={height + 16} text-anchor="middle">{t ? duration(t) : "0"}</text></g>)}
        <text x={width / 2} y={height + 32} text-anchor="middle">served longer after SIGTERM</text>
        <text x={-margin.left} y={-8}>requests lost</text>
        <polygon class="curve" points={chart.outline()} />
        {points.map((p) => <circle key={p.longer} class={p === none ? "dot none" : "dot"} cx={chart.x(p.longer)} cy={chart.y(p.max)} r={p === none ? 5 : 2.5} />)}
        {advised !== undefined && <g data-testid="advised"><line class="advised" x1={chart.x(advised)} x2={chart.x(advised)} y1={0} y2={height} /><text x={chart.x(advised) - 4} y={10} text-anchor="end">advised {duration(advised)}</text></g>}
        {at && <text class="value" data-testid="curve-value" x={width} y={-8} text-anchor="end">{at.longer ? `${duration(at.longer)} longer` : "as it was"}: {leftText(at)} lost</text>}
      </svg>
      <details><summary>As a table</summary>
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Keep serving, as a table">
          <table>
            <thead><tr><th scope="row">Longer by</th>{points.map((p) => <th scope="col" class="num" key={p.longer}>{p.longer ? duration(p.longer) : "as it was"}</th>)}</tr></thead>
            <tbody><tr><th scope="row">Still failed</th>{points.map((p) => <td class="num" key={p.longer}>{leftText(p)}</td>)}</tr></tbody>
          </table>
        </div>
      </details>
    </div>
  );
}
