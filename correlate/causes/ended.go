package causes

import (
	"fmt"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// endedWith is how long after a change requests may go on failing for the change to count as the outage's end.
const endedWith = 2 * time.Second

// endOf returns the last change before a window was over that can have ended it: one of its Service's endpoints came or
// left, the Service was changed, or a node was ready again. It is nil where the window is still open, or nothing did.
func endOf(v *evidence.Evidence, w *model.Window) *model.Evidence {
	if w.Open.End || w.Live {
		return nil
	}
	behind := map[string]bool{}
	for _, p := range v.Services.Pods(w) {
		behind[p.UID] = true
	}
	var last *model.Event
	text := ""
	for _, e := range v.Changes.Near(w, model.Instant{Earliest: w.End.Earliest - endedWith, Latest: w.End.Latest}) {
		if says := endingChange(v, w, e, behind); says != "" && e.Seen <= w.End.Latest+cluster.WatchLag &&
			e.Seen > w.Start.Latest && (last == nil || e.Seen >= last.Seen) {
			last, text = e, says
		}
	}
	if last == nil {
		return nil
	}
	return &model.Evidence{Event: last.ID, At: new(last.At), Text: text}
}

// endingChange says in words how a change can have ended a window of a Service, "" if it cannot.
func endingChange(v *evidence.Evidence, w *model.Window, e *model.Event, behind map[string]bool) string {
	if e.Object.IsZero() {
		return ""
	}
	service := v.Traffic.Target(w).Service
	switch e.Kind {
	case timeline.EndpointChanged:
		switch {
		case !behind[e.Object.UID]:
		case cluster.IsReady(e.To):
			return e.Object.Name + " became a ready endpoint"
		case cluster.IsReady(e.From):
			return e.Object.Name + " left the ready endpoints"
		}
	case timeline.ServiceChanged:
		if service == "" || e.Object.Namespace+"/"+e.Object.Name == service {
			return fmt.Sprintf("Service %s: %s", e.Object.Name, e.Detail)
		}
	case timeline.NodeReady:
		if e.From != "" && e.To == "true" {
			return e.Object.Name + " was ready again"
		}
	}
	return ""
}
