package windows

import (
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// publish gives a window its public form. Where dark, unobserved time lies between its failures and
// the good requests beside them, the bracket reaches only to the edge of what was observed. unsure is dark, and the gaps between sends
// that are longer than usual.
func (w window) publish(slow bool, dark, unsure []Period, backends []string) model.Window {
	lit := w
	if w.shade(dark); w.beside != lit.beside {
		w.weigh()
	}
	sent := w.failed + w.inside
	if w.inside == 0 && w.failed < 3 && !slow {
		sent += w.beside.start + w.beside.end // so few tell nothing of a share but together with those beside them
	}
	p := model.Window{
		Kind:     model.Partial,
		Basis:    model.Exact,
		Start:    w.start,
		End:      w.end,
		Length:   model.Length{Min: max(0, w.end.Earliest-w.start.Latest), Max: w.end.Latest - w.start.Earliest},
		Sent:     sent,
		Failed:   w.failed,
		Share:    float64(w.failed) / float64(sent),
		Classes:  ClassNames(&w.classes),
		Backends: backendNames(w.backends, backends),
		Open:     w.open,
		Cut:      w.cut,
	}
	if w.usual || w.proofs.start > 1 || w.proofs.end > 1 {
		p.Basis = model.Statistical
	}
	if slow {
		p.Kind, p.Slow, p.Failed, p.Classes = model.Slow, w.failed, 0, map[string]int{}
		return p
	}
	if w.inside == 0 && w.failed >= 3 {
		p.Kind = model.Outage
	}
	if w.blackout != nil { // no longer than the window, which may be shaded
		p.Blackout = &model.Length{Min: w.blackout.Min, Max: min(w.blackout.Max, p.Length.Max)}
	}
	p.Downtime = w.downtime(p, dark, unsure)
	if w.open != (model.Open{}) && lit.open == (model.Open{}) {
		length := lit.end.Latest - lit.start.Earliest
		p.Most = &model.Most{Length: length, Downtime: p.Downtime.Max + length - p.Length.Max}
	}
	return p
}

// shade ends brackets where they would reach into unobserved time.
func (w *window) shade(dark []Period) {
	if before := touching(dark, w.start.Earliest, w.minSent); len(before) > 0 {
		w.start.Earliest = min(before[len(before)-1].To, w.minSent)
		w.open.Start, w.beside.start = true, 0
	}
	if after := touching(dark, w.maxKnown, w.end.Latest); len(after) > 0 {
		w.end.Latest = max(after[0].From, w.maxKnown)
		w.open.End, w.beside.end = true, 0
	}
}

// downtime is the time a service that fails every request would need to lose as many. What was not
// observed adds nothing to the least it can be, and all of itself to the most. Nor do gaps that are longer than usual add to the least: the
// Service may have been well in them.
//
// The share of a partial window is bounded below by the requests amid its failures, and above by all within its brackets, also
// those beside the failures, which were answered.
func (w window) downtime(p model.Window, dark, unsure []Period) model.Length {
	least := max(0, p.Length.Min-within(unsure, w.start.Latest, w.end.Earliest))
	if p.Kind == model.Outage {
		return model.Length{Min: least, Max: p.Length.Max}
	}
	unseen := within(dark, p.Start.Earliest, p.End.Latest)
	return model.Length{Min: scale(least, w.shareLow), Max: scale(p.Length.Max-unseen, w.shareHigh) + unseen}
}

// within is how much of the time between two instants is dark.
func within(dark []Period, from, to time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range touching(dark, from, to) {
		sum += max(0, min(d.To, to)-max(d.From, from)) // a lone failure ends before it is known
	}
	return sum
}

func scale(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * share)
}

// backendNames returns nil if nobody answered by name.
func backendNames(counts map[uint16]int, names []string) map[string]int {
	if len(counts) == 0 {
		return nil
	}
	named := map[string]int{}
	for id, n := range counts {
		named[backendName(id, names)] += n
	}
	return named
}

func backendName(id uint16, names []string) string {
	if int(id) < len(names) {
		return names[id]
	}
	return ""
}

// Failure gives a failed request its public form.
func Failure(r timeline.Request, target string, backends []string) model.Failure {
	return model.Failure{
		Target: target, Seq: r.Seq, Due: r.Due, Sent: r.Sent, Done: r.Done,
		Class: r.Class, Code: r.Code, Backend: backendName(r.Backend, backends), Reused: r.Reused,
		DNS: r.DNS.Duration(), Connect: r.Connect.Duration(), TLS: r.TLS.Duration(), FirstByte: r.FirstByte.Duration(),
	}
}

// ClassNames are counts by the name of their class, without those that are 0.
func ClassNames(counts *[timeline.NumClasses]int) map[string]int {
	named := map[string]int{}
	for c, n := range counts {
		if n > 0 {
			named[timeline.Class(c).String()] = n
		}
	}
	return named
}
