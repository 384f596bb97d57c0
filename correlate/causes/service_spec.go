package causes

import (
	"strings"
	"time"

	"lapse/correlate/model"
)

// This file is what several rules ask of the Service itself: how it was set, and what of that was changed.

// How the words of an event begin by which a Service's ports or its selector were changed.
const (
	portsEdited    = "ports: "
	selectorEdited = "selector: "
)

// switchReach is for how long after a change of the Service nodes may still route as before.
const switchReach = 10 * time.Second

// serviceChange is the last change of the window's Service that was seen before its onset, of those whose detail
// begins so.
func (v *index) serviceChange(w *model.Window, detail string) (change *model.Event) {
	service := v.target(w).Service
	for _, e := range v.edits {
		if strings.HasPrefix(e.Detail, detail) && (service == "" || e.Object.Namespace+"/"+e.Object.Name == service) &&
			e.At.Earliest <= v.onset(w).Latest && w.Start.Earliest <= e.At.Latest+switchReach {
			change = e
		}
	}
	return change
}

// serviceGone is the deletion of the window's Service, if that was seen shortly before its onset was over; else nil.
func (v *index) serviceGone(w *model.Window) *model.Event {
	service := v.target(w).Service
	for _, e := range v.edits {
		if e.To == "absent" && e.Detail == "deleted" &&
			(service == "" || e.Object.Namespace+"/"+e.Object.Name == service) && e.At.Earliest <= v.onset(w).Latest && w.Start.Earliest <= e.At.Latest+serviceGoes {
			return e
		}
	}
	return nil
}

// serviceGoes is for how long a name server and the nodes may go on knowing a Service that was deleted.
const serviceGoes = 60 * time.Second

// serviceSpec is the last snapshot of the window's Service from before the window's onset was over; nil if there is
// none.
func (v *index) serviceSpec(w *model.Window) (spec *model.Event) {
	for _, e := range v.specs {
		if e.Object != nil && e.Object.Namespace+"/"+e.Object.Name == v.target(w).Service && (spec == nil || e.Seen <= w.Start.Latest) {
			spec = e
		}
	}
	return spec
}

// publishes reports whether the window's Service keeps endpoints of Pods that end, or are not ready, as if they were
// ready (publishNotReadyAddresses); known is false where its spec was not recorded.
func (v *index) publishes(w *model.Window) (does, known bool) {
	spec := v.serviceSpec(w)
	return spec != nil && spec.Snapshot.Service.PublishNotReady, spec != nil
}
