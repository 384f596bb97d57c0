import { useState } from "preact/hooks";
import type { Clock } from "./clock";
import { duration, shortPod } from "./format";
import { useWidth } from "./hooks";
import type { Instant, LateRoutes, Ns, Route } from "./model";
import { type Dot, dots, lagText, lostText, matrix, type MatrixRow, moment, reach, ticksBetween, unobservedAt, waitedText } from "./routes";
import type { Run } from "./run";

const pageSize = 50;

interface RoutesProps { run: Run; clock: Clock; onMoment: (between: Instant) => void }

/** Routes is how the routes of each node followed the changes of endpoints: a row for each change, a column for each node. */
export function Routes({ run, clock, onMoment }: RoutesProps) {
  const [pages, setPages] = useState(1);
  const { routes, late } = run;
  if (!routes.length) return null;
  const { nodes, rows } = matrix(routes);
  const shown = rows.slice(0, pages * pageSize);
  return (
    <section class="panel" aria-label="Routes" data-testid="routes">
      <header class="panel-head"><h2>Routes</h2><span class="faint">From a change in the EndpointSlice until requests from each node followed it. Select one to see it on the timeline</span></header>
      {late.length > 0 && <ul class="late">{late.map((l) => <Late late={l} />)}</ul>}
      <DotPlot rows={shown} clock={clock} onMoment={onMoment} />
      <details class="note" data-testid="routes-table"><summary>As a table</summary>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Routes, as a table">
        <table class="routes">
          <thead><tr><th scope="col">{clock.name}</th><th scope="col">Endpoint</th><th scope="col"><span class="unseen">Change</span></th>{nodes.map((n) => <th scope="col" class="num" key={n}>{n}</th>)}</tr></thead>
          <tbody>{shown.map((row) => <Change key={row.event} row={row} nodes={nodes} run={run} clock={clock} onMoment={onMoment} />)}</tbody>
        </table>
      </div>
      </details>
      {shown.length < rows.length && (
        <p class="note"><button type="button" onClick={() => setPages(pages + 1)}>Show {Math.min(pageSize, rows.length - shown.length)} more of {rows.length} changes</button></p>
      )}
    </section>
  );
}

const [lineHeight, axisHeight] = [14, 32]; // px
const [labelRoom, nameRoom, edge] = [212, 80, 8]; // px beside the strips, for a node's name, and for half a dot
const narrow = 600; // px: then the labels stand above
const fewNodes = 12; // each has a line of its own

/** DotPlot has a strip for each change: ─●─ is when a node followed it, and the dashed line when the Pod itself had stopped. */
function DotPlot({ rows, clock, onMoment }: { rows: MatrixRow[]; clock: Clock; onMoment: (between: Instant) => void }) {
  const [box, outer] = useWidth<HTMLDivElement>();
  const all = rows.map((row) => dots(row));
  const { from, to } = reach(all.flat());
  const width = Math.max((outer < narrow ? outer : outer - labelRoom) - 2 * edge, 100);
  const x = (at: Ns): number => ((at - from) / (to - from)) * width;
  return (
    <div class="dot-plot">
      <div ref={box} data-testid="dot-plot">
        {rows.map((row, i) => <Strip key={row.event} row={row} dots={all[i]!} x={x} width={width} clock={clock} onMoment={onMoment} />)}
        <div class="dot-row">
          <span />
          <svg width={width + 2 * edge} height={axisHeight} viewBox={`${-edge} 0 ${width + 2 * edge} ${axisHeight}`} aria-hidden="true">
            {ticksBetween(from, to, width / 90).map((t) => (
              <g key={t} data-testid="dot-tick"><line class="tick" x1={x(t)} x2={x(t)} y1={0} y2={4} /><text x={x(t)} y={14} text-anchor={x(t) < 20 ? "start" : x(t) > width - 20 ? "end" : "middle"}>{t ? duration(t) : "0"}</text></g>
            ))}
            <text x={width / 2} y={28} text-anchor="middle">after the EndpointSlice changed</text>
          </svg>
        </div>
      </div>
    </div>
  );
}

interface StripProps { row: MatrixRow; dots: Dot[]; x: (at: Ns) => number; width: number; clock: Clock; onMoment: (between: Instant) => void }

function Strip({ row, dots: all, x, width, clock, onMoment }: StripProps) {
  const lines = all.length <= fewNodes ? all.length : 1;
  const height = Math.max(lines, 1) * lineHeight;
  const stopped = all.find((d) => d.stopped !== undefined)?.stopped;
  return (
    <div class="dot-row">
      <span title={row.pod}><span class="mono">{clock.at(row.at, 1)}</span> {row.change === "addition" ? "added" : "removed"} <b>{shortPod(row.pod)}</b></span>
      <svg width={width + 2 * edge} height={height} viewBox={`${-edge} 0 ${width + 2 * edge} ${height}`} role="img" aria-label={`${row.pod}: ${all.map((d) => `${d.route.node} ${lagText(d.route)}`).join(", ")}`}>
        <line class="tick" x1={x(0)} x2={x(0)} y1={0} y2={height} />
        {stopped !== undefined && <line class="stopped" x1={x(stopped)} x2={x(stopped)} y1={0} y2={height}><title>{row.pod} itself had stopped</title></line>}
        {all.map((d, n) => {
          const y = (lines > 1 ? n : 0) * lineHeight + lineHeight / 2;
          const left = x(d.to) > width - nameRoom; // the name stands there
          return (
            <g key={d.route.node} class={d.route.open ? "dot open" : all.length > fewNodes ? "dot many" : "dot"} data-testid="route-dot" onClick={() => onMoment(moment(d.route))}>
              <title>{`${d.route.node}: ${lagText(d.route)}${lostText(d.route) && `; ${lostText(d.route)}`}`}</title>
              <line x1={x(d.from)} x2={x(d.to)} y1={y} y2={y} />
              <circle cx={x(d.at)} cy={y} r={4} />
              {all.length <= fewNodes && <text x={left ? x(d.from) - 8 : x(d.to) + 8} y={y + 3.5} text-anchor={left ? "end" : "start"}>{d.route.node}</text>}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const Late = ({ late: l }: { late: LateRoutes }) => <li data-testid="late">{l.text}</li>;

interface ChangeProps extends RoutesProps { row: MatrixRow; nodes: string[] }

function Change({ row, nodes, run, clock, onMoment }: ChangeProps) {
  return (
    <tr>
      <td class="mono">{clock.at(row.at)}</td>
      <th scope="row">{row.pod}</th>
      <td class="faint">{row.change === "addition" ? "added" : "removed"}</td>
      {row.cells.map((r, i) => {
        const node = nodes[i]!;
        if (r) return <td class="num" key={node}><Cell route={r} clock={clock} onMoment={onMoment} /></td>;
        if (notMeasured(run, node, row.at)) return <td class="num hatched" key={node} title={`nothing was measured from ${node} then`}><span class="unseen">not observed</span></td>;
        return <td class="num faint" key={node} title={`no request from ${node} was answered by ${row.pod}`}>·</td>;
      })}
    </tr>
  );
}

/** notMeasured tells whether nothing was measured from a node at an instant. */
const notMeasured = (run: Run, node: string, at: Ns): boolean =>
  run.notMeasured ? !!run.notMeasured[node]?.some((s) => s.start <= at && at <= s.end) : unobservedAt(node, at, run.targets, run.unobserved);

function Cell({ route: r, clock, onMoment }: { route: Route; clock: Clock; onMoment: (between: Instant) => void }) {
  const text = lagText(r), lost = lostText(r) || waitedText(r);
  return (
    <button
      type="button" class={r.open ? "route open" : "route"} data-testid="route" data-node={r.node}
      title={`${r.node} followed between ${clock.bracket(r.changed)}${r.open ? ", or later: it was not seen to" : ""}${lost && `; ${lost}`}`}
      aria-label={`${r.pod} ${r.change === "addition" ? "added to" : "removed from"} the routes of ${r.node} after ${text}`} onClick={() => onMoment(moment(r))}
    >{text}</button>
  );
}
