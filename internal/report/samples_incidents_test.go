package report

import (
	"lapse/correlate/incidents"
	"lapse/correlate/model"
)

// The samples' windows are put together as those of any run.
func init() {
	for name, sample := range samples {
		samples[name] = func() *model.Timeline {
			tl := sample()
			tl.Incidents = incidents.Of(tl, tl.Run.Join)
			return said(tl)
		}
	}
}
