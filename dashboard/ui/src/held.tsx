import type { Clock } from "./clock";
import { classCounts, classList, duration, plural } from "./format";
import type { CutWindow, Held, Length } from "./model";
import type { Run } from "./run";

/** HeldConnections tells what became of the connections that were kept open: a row for each time in which some were cut. */
export function HeldConnections({ run, clock }: { run: Run; clock: Clock }) {
  if (!run.held.length) return null;
  return (
    <section class="panel" aria-label="Held connections" data-testid="held">
      <header class="panel-head"><h2>Held connections</h2></header>
      {run.held.map((h) => <HeldTarget key={h.target} held={h} clock={clock} />)}
    </section>
  );
}

function HeldTarget({ held: h, clock }: { held: Held; clock: Clock }) {
  const named = h.windows.some((w) => pods(w.from) || pods(w.to)); // replies name their Pods
  return (
    <>
      <p class="note">
        <b>{h.target}</b>: {h.standing} of {plural(h.connections, "connection")} {h.standing === 1 ? "stands" : "stand"}, with a heartbeat each {duration(h.heartbeat)}{pods(h.after) && `; on ${pods(h.after)}`}
        {h.stood < h.connections && <span class="bad">; {h.connections - h.stood} never stood: {classCounts(h.failed ?? {})}</span>}
        {!!h.stopped && `; ${plural(h.stopped, "cut")} after the prober had been stopped, not counted`}
        {!!h.unproven && `; ${h.unproven} with heartbeats that were not answered`}
        {h.open && "; part of it is not on record"}
      </p>
      {h.windows.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={`Cut connections of ${h.target}`}>
          <table class="services" data-testid="held-windows">
            <thead><tr>
              <th scope="col">#</th><th scope="col">First cut</th><th scope="col" class="num">Connections</th><th scope="col">How</th><th scope="col" class="num">Without warning</th>
              <th scope="col">Back after</th><th scope="col">Attempts</th><th scope="col" class="num">Most in one second</th>{named && <><th scope="col">From</th><th scope="col">To</th></>}
            </tr></thead>
            <tbody>{h.windows.map((w) => <CutRow key={w.id} w={w} named={named} clock={clock} />)}</tbody>
          </table>
        </div>
      )}
    </>
  );
}

function CutRow({ w, named, clock }: { w: CutWindow; named: boolean; clock: Clock }) {
  const refused = classCounts(w.refused ?? {});
  return (
    <tr data-testid="held-window">
      <td>{w.id}</td>
      <td class="mono" title={`between ${clock.bracket(w.start)}`}>{clock.began({ earliest: w.start.latest, latest: w.start.latest })}</td>
      <td class="num bad">{w.failed} / {w.sent} cut</td>
      <td>{classList(w.classes)}</td>
      <td class="num">{w.unwarned}</td>
      <td>{w.back ? backText(w.back) : "never"}{!!w.missing && w.back && `, ${w.missing} not`}</td>
      <td>{w.attempts}{refused && `, failed: ${refused}`}</td>
      <td class="num">{w.busiest}</td>
      {named && <><td>{pods(w.from)}</td><td>{pods(w.to)}</td></>}
    </tr>
  );
}

const backText = ({ min, max }: Length): string => (duration(min) === duration(max) ? duration(max) : `${duration(min)} to ${duration(max)}`);

/** pods says how many connections are on which Pod, the fullest first; nothing if replies do not name Pods. */
function pods(of: Record<string, number> | undefined): string {
  const all = Object.entries(of ?? {}).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  if (!all.length || (all.length === 1 && !all[0]![0])) return "";
  const more = all.length > 6 ? `, and ${all.length - 6} more` : "";
  return all.slice(0, 6).map(([name, n]) => `${name || "not named"} ${n}`).join(", ") + more;
}
