package evidence

import (
	"strings"
	"time"

	"lapse/correlate/model"
)

// This file is about the Service itself: how it was set, and what of that was changed.

// How the detail of an event begins that changed a Service's ports or its selector.
const (
	PortsEdited    = "ports: "
	SelectorEdited = "selector: "
)

// SwitchReach is how long after a change of the Service nodes may still route as before.
const SwitchReach = 10 * time.Second

// Changed returns the last change of the window's Service before its onset whose detail begins with detail.
func (v *Services) Changed(w *model.Window, detail string) (change *model.Event) {
	service := v.traffic.Target(w).Service
	for _, e := range v.Edits {
		if strings.HasPrefix(e.Detail, detail) && (service == "" || e.Object.Namespace+"/"+e.Object.Name == service) &&
			e.At.Earliest <= v.traffic.Onset(w).Latest && w.Start.Earliest <= e.At.Latest+SwitchReach {
			change = e
		}
	}
	return change
}

// Deleted returns the deletion of the window's Service, if that was seen shortly before its onset was over; else nil.
func (v *Services) Deleted(w *model.Window) *model.Event {
	service := v.traffic.Target(w).Service
	for _, e := range v.Edits {
		if e.To == "absent" && e.Detail == "deleted" &&
			(service == "" || e.Object.Namespace+"/"+e.Object.Name == service) &&
			e.At.Earliest <= v.traffic.Onset(w).Latest && w.Start.Earliest <= e.At.Latest+serviceGoes {
			return e
		}
	}
	return nil
}

// serviceGoes is how long name servers and nodes may still know a Service after its deletion.
const serviceGoes = 60 * time.Second

// Spec returns the last snapshot of the window's Service from before the window's onset was over; nil if there is
// none.
func (v *Services) Spec(w *model.Window) (spec *model.Event) {
	for _, e := range v.specs {
		if e.Object.Namespace+"/"+e.Object.Name == v.traffic.Target(w).Service &&
			(spec == nil || e.Seen <= w.Start.Latest) {
			spec = e
		}
	}
	return spec
}

// Narrows reports whether the Service is set to lead requests from one place to some of its endpoints only.
func (v *Services) Narrows(w *model.Window) bool {
	spec := v.Spec(w)
	return spec != nil && (spec.Snapshot.Service.Prefers() || spec.Snapshot.Service.Internal == LocalPolicy)
}

// Publishes reports whether the window's Service keeps Pods that end, or are not ready, as ready endpoints
// (publishNotReadyAddresses); known is false if its spec was not recorded.
func (v *Services) Publishes(w *model.Window) (does, known bool) {
	spec := v.Spec(w)
	return spec != nil && spec.Snapshot.Service.PublishNotReady, spec != nil
}
