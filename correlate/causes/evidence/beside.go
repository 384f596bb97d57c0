package evidence

import (
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about the other targets of a run: how requests to them went during the window.

// AnsweredFrom returns the other nodes from which nearly all requests to the same Service were answered during the
// window. It leaves out those from which as large a share may have failed.
func (v *Traffic) AnsweredFrom(w *model.Window) (nodes []string) {
	own := v.Target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind == timeline.New && t.Source != own.Source && t.Node != "" && t.Node != own.Node &&
			t.URL == own.URL && v.frontend(t) == v.frontend(own) && v.AnsweredDuring(t, w) && v.spared(t, w) {
			nodes = append(nodes, t.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// spared reports whether more requests to a target were answered during the window than chance allows at the window's
// share of failures.
func (v *Traffic) spared(t *model.Target, w *model.Window) bool {
	answered, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest)
	return Exceeds(answered, sent, 1-w.Share)
}

// WentOnBeside returns the target with the other kind of connections from the same place, if nearly all its requests
// were answered during the window.
func (v *Traffic) WentOnBeside(w *model.Window) *model.Target {
	own := v.Target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind.Judged() && t.Kind != own.Kind && v.ShareRoutes(t, own) && v.AnsweredDuring(t, w) {
			return t
		}
	}
	return nil
}

// AnsweredDuring reports whether nearly all requests to a target were answered during the window, well or badly.
func (v *Traffic) AnsweredDuring(t *model.Target, w *model.Window) bool {
	answered, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest)
	return answered >= 3 && float64(answered) >= NearlyAll*float64(sent)
}

// ShareRoutes reports whether both targets send to the same port and address of a Service, from one place and by one
// way.
func (v *Traffic) ShareRoutes(t, o *model.Target) bool {
	return t.Source == o.Source && t.Route == o.Route && t.RouteNode == o.RouteNode && t.Turns == o.Turns &&
		v.frontend(t) == v.frontend(o)
}

// WindowNear returns a judged window of another target kind of the same Service that overlaps the
// bracket.
func (v *Traffic) WindowNear(t *model.Target, kind timeline.TargetKind, at model.Instant) *model.Window {
	for i := range v.Run.Windows {
		w := &v.Run.Windows[i]
		other := v.Target(w)
		if w.Kind != model.Slow && other.Kind == kind && v.ShareRoutes(other, t) && w.Span().Overlaps(at) {
			return w
		}
	}
	return nil
}
