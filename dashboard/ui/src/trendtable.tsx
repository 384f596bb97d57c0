import { useState } from "preact/hooks";
import { glued, plural } from "./format";
import { Fold } from "./fold";
import { short, type Trend } from "./runs";

/** TrendTable is what `lapse trend` says, of all Services or of the one that is chosen. */
export function TrendTable({ trend, service }: { trend: Trend; service: string | undefined }) {
  const [open, setOpen] = useState(false);
  const groups = trend.groups.filter((g) => !service || g.service === service);
  if (!groups.length) return null;
  return (
    <section class="panel" aria-label="Trend" data-testid="trend">
      <details open={open || !!service} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary class="panel-head"><h2>Trend</h2><span class="faint">by Service and release: {glued(trend.headline)}</span></summary>
        {(open || service) && <>
          <Fold all={groups} chosen={groups.slice(0, 4)} others={(n) => plural(n, "older group")} only="the newest" testid="all-groups">
            {(shown) => shown.map((g) => (
              <div key={g.service + g.remark}>
                <h3>{g.remark}</h3>
                <div class="scroll-x" tabIndex={0} role="region" aria-label={`Releases of ${g.remark}, as a table`}>
                  <table class="services">
                    <thead><tr><th scope="col">Release</th><th scope="col">Runs that lost requests</th><th scope="col">Failed requests</th><th scope="col">Downtime of a run</th><th scope="col">Cause</th><th scope="col">Against the one before</th></tr></thead>
                    <tbody>
                      {[...g.releases].reverse().slice(0, newest).map((r) => (
                        <tr key={r.name} data-testid="release"><th scope="row" class="mono" title={r.name}>{short(r.name)}</th><td>{glued(r.lossy)}</td><td>{glued(r.failed)}</td><td>{glued(r.downtime)}</td><td>{r.cause}</td><td>{r.change && glued(r.change)}</td></tr>
                      ))}
                    </tbody>
                  </table>
                </div>
                {g.releases.length > newest && <p class="note faint">{plural(g.releases.length - newest, "older release")}: lapse trend -v lists all</p>}
              </div>
            ))}
          </Fold>
          {trend.notes.map((n) => <p key={n} class="note faint">{glued(n)}</p>)}
        </>}
      </details>
    </section>
  );
}

const newest = 6; // releases of a group
