package causes

import (
	"strings"
	"time"

	"lapse/correlate/model"
)

// This file is what several rules ask of changes of the Service itself.

// portsEdited begins the words of an event that a Service's ports were changed.
const portsEdited = "ports: "

// switchReach is for how long after a change of the Service nodes may still route as before.
const switchReach = 10 * time.Second

// serviceChange is the last change of the window's Service that was seen before its onset, of those whose detail begins so.
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
