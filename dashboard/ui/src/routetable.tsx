import { useState } from "preact/hooks";
import type { Clock } from "./clock";
import { duration, shortPod } from "./format";
import { useWidth } from "./hooks";
import type { Instant, LateRoutes, Ns, Route } from "./model";
import { type Dot, dots, lagText, lostText, matrix, type MatrixRow, moment, nameAt, reach, shortNames, ticksBetween, unobservedAt, waitedText } from "./routes";
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
      <DotPlot rows={shown} nodes={nodes} clock={clock} onMoment={onMoment} />
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
const [labelRoom, edge] = [212, 8]; // px beside the strips, and for half a dot
const narrow = 600; // px: then the labels stand above
const fewNodes = 12; // each has a line of its own, and its name; of more the slowest is named
const fewChanges = 8; // of more, the axis stands above them too

/** Place is the axis that all strips share. */
interface Place { x: (at: Ns) => number; width: number; ticks: Ns[]; names: Map<string, string> }

/** DotPlot has a strip for each change: ─●─ is when a node followed it, and the dashed line when the Pod itself had stopped. */
function DotPlot({ rows, nodes, clock, onMoment }: { rows: MatrixRow[]; nodes: string[]; clock: Clock; onMoment: (between: Instant) => void }) {
  const [box, outer] = useWidth<HTMLDivElement>();
  const all = rows.map((row) => dots(row));
  const { from, to } = reach(all.flat());
  const width = Math.max((outer < narrow ? outer : outer - labelRoom) - 2 * edge, 100);
  const place: Place = { x: (at) => ((at - from) / (to - from)) * width, width, ticks: ticksBetween(from, to, width / 90), names: shortNames(nodes) };
  return (
    <div class="dot-plot">
      <div ref={box} data-testid="dot-plot">
        {rows.length > fewChanges && <DotAxis place={place} />}
        {rows.map((row, i) => <Strip key={row.event} row={row} dots={all[i]!} place={place} clock={clock} onMoment={onMoment} />)}
        <DotAxis place={place} />
      </div>
    </div>
  );
}

function DotAxis({ place: { x, width, ticks } }: { place: Place }) {
  return (
    <div class="dot-row" data-testid="dot-axis">
      <span />
      <svg width={width + 2 * edge} height={axisHeight} viewBox={`${-edge} 0 ${width + 2 * edge} ${axisHeight}`} aria-hidden="true">
        {ticks.map((t) => (
          <g key={t} data-testid="dot-tick"><line class="tick" x1={x(t)} x2={x(t)} y1={0} y2={4} /><text x={x(t)} y={14} text-anchor={x(t) < 20 ? "start" : x(t) > width - 20 ? "end" : "middle"}>{t ? duration(t) : "0"}</text></g>
        ))}
        <text x={width / 2} y={28} text-anchor="middle">after the EndpointSlice changed</text>
      </svg>
    </div>
  );
}

interface StripProps { row: MatrixRow; dots: Dot[]; place: Place; clock: Clock; onMoment: (between: Instant) => void }

function Strip({ row, dots: all, place: { x, width, ticks, names }, clock, onMoment }: StripProps) {
  const many = all.length > fewNodes;
  const lines = many ? 1 : all.length;
  const height = Math.max(lines, 1) * lineHeight;
  const stopped = all.find((d) => d.stopped !== undefined)?.stopped;
  return (
    <div class="dot-row">
      <span title={row.pod}><span class="mono">{clock.at(row.at, 1)}</span> {row.change === "addition" ? "added" : "removed"} <b>{shortPod(row.pod)}</b></span>
      <svg width={width + 2 * edge} height={height} viewBox={`${-edge} 0 ${width + 2 * edge} ${height}`} role="img" aria-label={`${row.pod}: ${all.map((d) => `${d.route.node} ${lagText(d.route)}`).join(", ")}`}>
        {ticks.map((t) => <line key={t} class="tick" x1={x(t)} x2={x(t)} y1={0} y2={height} />)}
        {stopped !== undefined && <line class="stopped" x1={x(stopped)} x2={x(stopped)} y1={0} y2={height}><title>{row.pod} itself had stopped</title></line>}
        {all.map((d, n) => {
          const y = (many ? 0 : n) * lineHeight + lineHeight / 2;
          const name = names.get(d.route.node)!;
          const at = !many ? nameAt(name, x(d.from), x(d.to), width) : n === all.length - 1 ? nameAt(name, x(d.from), x(d.to), width, x(all[n - 1]!.to)) : undefined;
          return (
            <g key={d.route.node} class={d.route.open ? "dot open" : many ? "dot many" : "dot"} data-testid="route-dot" onClick={() => onMoment(moment(d.route))}>
              <title>{`${d.route.node}: ${lagText(d.route)}${lostText(d.route) && `; ${lostText(d.route)}`}`}</title>
              <line x1={x(d.from)} x2={x(d.to)} y1={y} y2={y} />
              <circle cx={x(d.at)} cy={y} r={4} />
              {at && <text data-testid="dot-name" x={at.x} y={y + 3.5} text-anchor={at.anchor}>{name}</text>}
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
