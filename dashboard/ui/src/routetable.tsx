import { useState } from "preact/hooks";
import type { Clock } from "./clock";
import type { Instant, LateRoutes, Ns, Route } from "./model";
import { lagText, level, lostText, matrix, type MatrixRow, moment, unobservedAt, waitedText } from "./routes";
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
      <header class="panel-head"><h2>Routes</h2><span class="faint">From a change in the EndpointSlice until requests from the node followed it. Select one to see it on the timeline</span></header>
      {late.length > 0 && <ul class="late">{late.map((l) => <Late late={l} />)}</ul>}
      <div class="scroll-x">
        <table class="routes">
          <thead><tr><th scope="col">{clock.name}</th><th scope="col">Endpoint</th><th scope="col"><span class="unseen">Change</span></th>{nodes.map((n) => <th scope="col" class="num" key={n}>{n}</th>)}</tr></thead>
          <tbody>{shown.map((row) => <Change key={row.event} row={row} nodes={nodes} run={run} clock={clock} onMoment={onMoment} />)}</tbody>
        </table>
      </div>
      {shown.length < rows.length && (
        <p class="note"><button type="button" onClick={() => setPages(pages + 1)}>Show {Math.min(pageSize, rows.length - shown.length)} more of {rows.length} changes</button></p>
      )}
    </section>
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
      type="button" class={`route level-${level(r)}${r.open ? " open" : ""}`} data-testid="route" data-node={r.node}
      title={`${r.node} followed between ${clock.bracket(r.changed)}${r.open ? ", or later: it was not seen to" : ""}${lost && `; ${lost}`}`}
      aria-label={`${r.pod} ${r.change === "addition" ? "added to" : "removed from"} the routes of ${r.node} after ${text}`} onClick={() => onMoment(moment(r))}
    >{text}</button>
  );
}
