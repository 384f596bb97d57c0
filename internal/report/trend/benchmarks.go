package trend

import (
	"cmp"
	"io"
	"strings"

	"golang.org/x/perf/benchfmt"

	"lapse/correlate/trend"
	"lapse/internal/report/document"
)

// writeBenchmarks writes a result for each run that is known to have seen all its failures. What may not be pooled
// differs in a key of the configuration, so that benchstat keeps it apart.
func writeBenchmarks(w io.Writer, runs Runs, _ Options) error {
	out := benchfmt.NewWriter(w)
	for _, unit := range []string{failedUnit, leastUnit, mostUnit} {
		better := benchfmt.UnitMetadata{
			UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: "lower",
		}
		if err := out.Write(&better); err != nil {
			return err
		}
	}
	for run := range trend.Known(runs.Lines) {
		if err := out.Write(resultOf(run)); err != nil {
			return err
		}
	}
	return nil
}

// Units of a result. The downtime is somewhere from the one to the other.
const (
	failedUnit = "failed/run"
	leastUnit  = "downtime-min-sec/run"
	mostUnit   = "downtime-max-sec/run"
)

func resultOf(run trend.Run) *benchfmt.Result {
	r := &benchfmt.Result{Name: benchfmt.Name("Disruption"), Iters: 1}
	set := func(key, value string) {
		if value != "" {
			r.Config = append(r.Config, benchfmt.Config{Key: key, Value: []byte(document.Clean(value)), File: true})
		}
	}
	set("service", run.Pool.Service)
	set("urls", strings.Join(run.Pool.URLs, " "))
	set("disruption", run.Pool.Disruption)
	set("kubernetes", run.Pool.Kubernetes)
	set("proxy-mode", run.Pool.ProxyMode)
	set("load", run.Pool.Load)
	set("release", cmp.Or(run.Release, "unknown"))
	total := run.Line.Downtime.Total
	r.Values = []benchfmt.Value{
		{Value: float64(run.Line.Failed), Unit: failedUnit},
		{Value: total.Min.Seconds(), Unit: leastUnit},
	}
	if !run.Line.Downtime.Open {
		r.Values = append(r.Values, benchfmt.Value{Value: total.Max.Seconds(), Unit: mostUnit})
	}
	return r
}
