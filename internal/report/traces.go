package report

import (
	"io"

	"lapse/correlate/model"
	"lapse/internal/report/perfetto"
)

var perfettoFormat = Format{
	Name: "perfetto",
	Doc:  "a trace for ui.perfetto.dev and chrome://tracing: targets with their windows, Pods, what set incidents off",
	Ext:  "json",
	Write: judgedBy(func(w io.Writer, tl *model.Timeline, _ Options) error {
		return perfetto.Write(w, tl)
	}),
}
