package history

import (
	"slices"
	"time"
)

// KeptDays is how many days [Observed] keeps.
const KeptDays = 31

// Observed says how long a guard has observed its Services, by day (UTC) and Service, and since when. What it does not
// say was not observed: the guard was away, or could not measure.
//
//	{"until":"2026-11-26T14:03:00Z","days":{"2026-11-26":{"shop/web":17460000000000}},
//	 "guarded":{"shop/web":[{"from":"2026-11-26T09:12:00Z"}]}}
type Observed struct {
	Until   time.Time                           `json:"until"` // when it was written
	Days    map[string]map[string]time.Duration `json:"days"`
	Guarded map[string][]Span                   `json:"guarded,omitzero"` // by Service, the newest last
}

// A Span is when a Service was guarded: from its first observed second until the guard saw that it was no longer
// annotated. A guard that is away ends no span, and one that begins again on the day it ended goes on.
type Span struct {
	From time.Time `json:"from,omitzero"` // zero: longer than is known, in files from before spans were kept
	To   time.Time `json:"to,omitzero"`   // zero: it goes on
}

// DayOf returns the day (UTC) of an instant, as in 2026-11-26.
func DayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Add adds for how long each guarded Service was observed, until an instant. A length below 0 takes back what was added
// too early. A Service that is not among them is no longer guarded.
func (o *Observed) Add(at time.Time, lengths map[string]time.Duration) {
	o.Until = at.UTC()
	for service, length := range lengths {
		o.begin(service, length)
		o.add(service, length)
	}
	oldest := DayOf(at.AddDate(0, 0, 1-KeptDays))
	for service, spans := range o.Guarded {
		if n := len(spans); n > 0 && spans[n-1].To.IsZero() {
			if _, guarded := lengths[service]; !guarded {
				spans[n-1].To = o.Until
			}
		}
		spans = slices.DeleteFunc(spans, func(s Span) bool { return !s.To.IsZero() && DayOf(s.To) < oldest })
		if o.Guarded[service] = spans; len(spans) == 0 {
			delete(o.Guarded, service)
		}
	}
	for day := range o.Days {
		if day < oldest {
			delete(o.Days, day)
		}
	}
}

// begin begins a span with the first observed time of a Service, unless one goes on.
func (o *Observed) begin(service string, length time.Duration) {
	spans := o.Guarded[service]
	from := o.Until.Add(-length)
	switch n := len(spans); {
	case n > 0 && spans[n-1].To.IsZero():
	case n > 0 && DayOf(spans[n-1].To) == DayOf(from):
		spans[n-1].To = time.Time{}
	case n == 0 && o.knows(service):
		o.keep(service, Span{})
	case length > 0:
		o.keep(service, Span{From: from})
	}
}

func (o *Observed) keep(service string, s Span) {
	if o.Guarded == nil {
		o.Guarded = map[string][]Span{}
	}
	o.Guarded[service] = append(o.Guarded[service], s)
}

// knows reports whether a Service was observed on one of the days.
func (o *Observed) knows(service string) bool {
	for _, services := range o.Days {
		if services[service] > 0 {
			return true
		}
	}
	return false
}

func (o *Observed) add(service string, length time.Duration) {
	day := DayOf(o.Until)
	if o.Days == nil {
		o.Days = map[string]map[string]time.Duration{}
	}
	if o.Days[day] == nil {
		o.Days[day] = map[string]time.Duration{}
	}
	o.Days[day][service] = max(0, o.Days[day][service]+length)
}

// Since returns when a Service was first observed on a day, zero if it was guarded before.
func (o *Observed) Since(service, day string) time.Time {
	for _, s := range o.Guarded[service] {
		if !s.From.IsZero() && DayOf(s.From) == day {
			return s.From
		}
	}
	return time.Time{}
}
