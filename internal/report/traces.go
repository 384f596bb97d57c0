package report

import (
	"io"

	"lapse/correlate/model"
	"lapse/internal/report/otlp"
	"lapse/internal/report/perfetto"
)

var perfettoFormat = Format{
	Name: "perfetto",
	Doc:  "a trace for ui.perfetto.dev: windows, Pods, what set incidents off",
	Ext:  "json",
	Write: judgedBy(func(w io.Writer, tl *model.Timeline, _ Options) error {
		return perfetto.Write(w, tl)
	}),
}

var otlpFormat = Format{
	Name:  "otlp",
	Doc:   "a trace for OpenTelemetry, as OTLP/JSON",
	Ext:   "json",
	Check: otlp.Check,
	Write: judgedBy(func(w io.Writer, tl *model.Timeline, o Options) error {
		if o.Env == nil {
			o.Env = func(string) string { return "" }
		}
		trace, err := otlp.Trace(tl, o.Env)
		if err != nil {
			return err
		}
		return otlp.JSON(w, trace)
	}),
}
