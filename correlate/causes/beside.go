package causes

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what several rules ask of the other targets of a run: how requests to them went during the window.

// answeredFrom are other nodes from which the same Service was asked by its name during the window, and answered
// nearly always.
func (v *index) answeredFrom(w *model.Window) (nodes []string) {
	own := v.target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind == timeline.New && t.Source != own.Source && t.Node != "" && t.Node != own.Node && t.URL == own.URL && v.frontend(t) == v.frontend(own) && v.answeredDuring(t, w) {
			nodes = append(nodes, t.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// wentOnBeside is the target of the other kind of connections from the same place, if it was answered nearly always
// during the window.
func (v *index) wentOnBeside(w *model.Window) *model.Target {
	own := v.target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind.Judged() && t.Kind != own.Kind && v.shareRoutes(t, own) && v.answeredDuring(t, w) {
			return t
		}
	}
	return nil
}

// answeredDuring reports whether a target was answered nearly always during the window, well or badly.
func (v *index) answeredDuring(t *model.Target, w *model.Window) bool {
	answered, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest)
	return answered >= 3 && float64(answered) >= nearlyAll*float64(sent)
}

// shareRoutes reports whether both targets send to the same port and address of a Service, from one place and by one
// way.
func (v *index) shareRoutes(t, o *model.Target) bool {
	return t.Source == o.Source && t.Route == o.Route && t.RouteNode == o.RouteNode && t.Turns == o.Turns && v.frontend(t) == v.frontend(o)
}

// windowNear returns a judged window of another target kind of the same Service that overlaps the
// bracket.
func (v *index) windowNear(t *model.Target, kind timeline.TargetKind, at model.Instant) *model.Window {
	for i := range v.Run.Windows {
		w := &v.Run.Windows[i]
		other := v.target(w)
		if w.Kind != model.Slow && other.Kind == kind && v.shareRoutes(other, t) && w.Span().Overlaps(at) {
			return w
		}
	}
	return nil
}

// beside says what targets of the same run tell whose requests do not go by what stands before the Service: that they
// were well supports the finding; that some failed too, in which %s are their names, speaks against it; and without
// any it is less sure.
func (f *Finding) beside(well, ill []string, wereWell, failedToo, unmeasured string) {
	switch {
	case len(ill) > 0:
		f.against(doubt(Close, fmt.Sprintf(failedToo, strings.Join(ill, ", "))))
	case len(well) > 0:
		f.For = append(f.For, Sign{model.Evidence{Target: well[0], Text: wereWell}, Watched})
	default:
		f.missing(doubt(Measured, unmeasured))
	}
}
