package report

import (
	"lapse/internal/report/chart"
	"lapse/internal/report/document"
)

// timelineSection draws the run.
func timelineSection(v *view) document.Section {
	return chart.Section(v.Timeline, v.names, v.Options.page())
}
