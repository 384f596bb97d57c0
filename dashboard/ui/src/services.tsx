import { coverage, length, plural } from "./format";
import { Fold } from "./fold";
import { minCoverage } from "./health";
import type { ServiceVerdict, SetAside, WatchedService } from "./model";
import type { Run } from "./run";

/** Services has a verdict for each Service where there are several, the worst first, and those that could not be measured with the reason. */
export function Services({ run: { services, info } }: { run: Run }) {
  const judged = services.filter((s) => s.verdict);
  const aside = byReason(info?.setAside ?? []);
  if (judged.length + aside.length < 2) return null;
  const least = minCoverage(info);
  const bad = judged.filter(({ verdict: v }) => losses(v!) > 0 || v!.sent + (v!.held ?? 0) === 0 || v!.coverage < least);
  return (
    <section class="panel" aria-label="Services" data-testid="services">
      <header class="panel-head"><h2>Services</h2><span class="faint">{bad.length ? `${plural(bad.length, "Service")} of ${judged.length} with failures or gaps, the worst first` : `${plural(judged.length, "Service")}, none with a failure`}</span></header>
      <Fold all={judged} chosen={bad} others={(n) => `${plural(n, "Service")} without a failure`} only="those with failures or gaps" testid="all-services">
        {(shown) => shown.length > 0 && (
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Services, as a table">
            <table class="services">
              <thead><tr><th scope="col">Service</th><th scope="col" class="num">Requests</th><th scope="col" class="num">Downtime</th><th scope="col" class="num">Incidents</th><th scope="col">Cause of most failures</th></tr></thead>
              <tbody>{shown.map((s) => <ServiceRow key={s.name} service={s} least={least} />)}</tbody>
            </table>
          </div>
        )}
      </Fold>
      {aside.map(({ why, names }) => <p key={why} class="note faint" data-testid="set-aside">Not measured: {names.join(", ")}: {why}</p>)}
    </section>
  );
}

function ServiceRow({ service: { name, verdict }, least }: { service: WatchedService; least: number }) {
  const v = verdict!;
  return (
    <tr data-testid="service-row" data-service={name}>
      <th scope="row">{name}</th>
      <td class={losses(v) ? "num bad" : "num"}>{lost(v)}</td>
      <td class="num">{v.failed ? length(v.downtime.total, !!v.downtime.open) : v.coverage < least ? `only ${coverage(v.coverage)} observed` : "none seen"}</td>
      <td class="num">{v.incidents || ""}</td>
      <td>{v.cause && <><span class="rule">{v.cause.rule}</span> <span class="faint">{v.cause.confidence}</span></>}</td>
    </tr>
  );
}

/** losses returns how many requests failed and connections were cut. */
const losses = (v: ServiceVerdict) => v.failed + (v.cut ?? 0);

/** lost says of how many requests and held connections the losses are. */
function lost(v: ServiceVerdict): string {
  const requests = v.sent || !v.held ? [`${v.failed} / ${v.sent} failed`] : [];
  const held = v.held ? [`${v.cut ?? 0} / ${v.held} connections cut`] : [];
  return [...requests, ...held].join(", ");
}

/** byReason puts Services together that were set aside for the same reason. */
function byReason(all: SetAside[]): { why: string; names: string[] }[] {
  const reasons = new Map<string, string[]>();
  for (const { namespace, name, why } of all) reasons.set(why, [...(reasons.get(why) ?? []), `${namespace}/${name}`]);
  return [...reasons].map(([why, names]) => ({ why, names }));
}
