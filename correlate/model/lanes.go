package model

import (
	"maps"
	"slices"
	"strings"

	"lapse/timeline"
)

// Lanes are the watches that are off, as far as events were read.
type Lanes map[lane]bool

// A lane is what is watched of a Service.
type lane struct {
	kind    string // in lower case, singular
	service string // NAMESPACE/NAME; "": of every one
}

// Learn reads an event.
func (l Lanes) Learn(e *Event) {
	if e.Kind != timeline.WatchLane || e.Object.IsZero() {
		return
	}
	kind := strings.TrimSuffix(strings.ToLower(e.Object.Kind), "s")
	if len(e.Services) == 0 {
		for other := range l {
			if other.kind == kind {
				delete(l, other)
			}
		}
		l[lane{kind, ""}] = e.To == "off"
	}
	for _, service := range e.Services {
		l[lane{kind, service}] = e.To == "off"
	}
}

// With returns the lanes as they are after an event, and leaves l as it was.
func (l Lanes) With(e *Event) Lanes {
	after := Lanes{}
	maps.Copy(after, l)
	after.Learn(e)
	return after
}

// Off reports whether a watch of that kind, in lower case, is off which is about the Service: NAMESPACE/NAME, or ""
// for any.
func (l Lanes) Off(kind, service string) bool {
	if service != "" {
		if off, known := l[lane{kind, service}]; known {
			return off
		}
		return l[lane{kind, ""}]
	}
	for of, off := range l {
		if of.kind == kind && off {
			return true
		}
	}
	return false
}

// Concerns reports whether a fact about these Services is about this one: NAMESPACE/NAME, or "" if it may be any. No
// Services stand for all.
func Concerns(services []string, service string) bool {
	return len(services) == 0 || service == "" || slices.Contains(services, service)
}
