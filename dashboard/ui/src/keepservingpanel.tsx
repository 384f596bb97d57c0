import { duration, plural } from "./format";
import { curve, leftText, outline } from "./keepserving";
import type { Run } from "./run";

const [width, height] = [420, 96];

/** KeepServingPanel shows what would be left of the failures, had each Pod served longer after SIGTERM. */
export function KeepServingPanel({ run: { keepServing: k } }: { run: Run }) {
  if (!k) return null;
  const points = curve(k);
  return (
    <section class="panel" aria-label="Keep serving" data-testid="keep-serving">
      <header class="panel-head">
        <h2>Keep serving</h2>
        <span class="faint">How many requests would have failed, had each Pod served longer after SIGTERM{k.others > 0 && `; ${plural(k.others, "other failure")} it is not known to mend`}</span>
      </header>
      <div class="keep-serving">
        <svg viewBox={`-1 -1 ${width + 2} ${height + 2}`} width={width} height={height} role="img" aria-label={`of ${points[0]!.max} failures, ${leftText(points.at(-1)!)} are left after ${duration(points.at(-1)!.longer)}`}>
          <polygon class="curve" points={outline(points, width, height)} />
        </svg>
        <table>
          <thead><tr><th scope="row">Longer by</th>{points.map((p) => <th scope="col" class="num" key={p.longer}>{p.longer ? duration(p.longer) : "as it was"}</th>)}</tr></thead>
          <tbody><tr><th scope="row">Still failed</th>{points.map((p) => <td class="num" key={p.longer}>{leftText(p)}</td>)}</tr></tbody>
        </table>
      </div>
    </section>
  );
}
