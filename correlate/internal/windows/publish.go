package windows

import (
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// publish gives a window its public form. Where unobserved time lies between its failures and the successes before or
// after them, the bracket ends at the edge of what was observed. unsure is the unobserved time together with the gaps
// between sends that are longer than usual.
func (w window) publish(slow bool, unobserved, unsure []Period, rates *Intervals, backends []string) model.Window {
	full := w
	if w.clampToObserved(unobserved); w.confirmed != full.confirmed {
		w.boundShare()
	}
	sent := w.failed + w.amid
	if w.amid == 0 && w.failed < 3 && !slow {
		sent += w.confirmed.start + w.confirmed.end // too few for a share of their own
	}
	p := model.Window{
		Kind:       model.Partial,
		Basis:      model.Exact,
		Start:      w.start,
		End:        w.end,
		Length:     model.Length{Min: max(0, w.end.Earliest-w.start.Latest), Max: w.end.Latest - w.start.Earliest},
		Sent:       sent,
		Failed:     w.failed,
		NoEvidence: w.setAside,
		Share:      float64(w.failed) / float64(sent),
		Classes:    ClassNames(&w.classes),
		Backends:   backendNames(w.backends, backends),
		Open:       w.open,
		Cut:        w.cut,
	}
	if w.statistical || w.needed.start > 1 || w.needed.end > 1 {
		p.Basis = model.Statistical
	}
	if slow {
		p.Kind, p.Slow, p.Failed, p.Classes = model.Slow, w.failed, 0, map[string]int{}
		return p
	}
	if w.amid == 0 && w.failed >= 3 {
		p.Kind = model.Outage
	}
	if w.blackout != nil { // no longer than the window, which may have been clamped
		p.Blackout = &model.Length{Min: w.blackout.Min, Max: min(w.blackout.Max, p.Length.Max)}
	}
	p.Downtime = w.downtime(p, unobserved, unsure, rates)
	if w.open != (model.Open{}) && full.open == (model.Open{}) {
		length := full.end.Latest - full.start.Earliest
		p.Most = &model.Most{Length: length, Downtime: p.Downtime.Max + length - p.Length.Max}
	}
	return p
}

// clampToObserved ends brackets where unobserved time begins.
//
//	ok ok . . . x x x ok   →   start ∈ [end of the gap, first x], open
func (w *window) clampToObserved(unobserved []Period) {
	if before := touching(unobserved, w.start.Earliest, w.minSent); len(before) > 0 {
		w.start.Earliest = min(before[len(before)-1].To, w.minSent)
		w.open.Start, w.confirmed.start = true, 0
	}
	if after := touching(unobserved, w.maxKnown, w.end.Latest); len(after) > 0 {
		w.end.Latest = max(after[0].From, w.maxKnown)
		w.open.End, w.confirmed.end = true, 0
	}
}

// downtime returns how long a service that fails every request would need to be down to lose as many. Unobserved time
// counts in full at the upper end and not at all at the lower end. Gaps that are longer than usual do not count at
// the lower end either: the target may have been well in them.
//
// The share of a partial window is bounded below by failures ÷ requests between the failures, and above by failures ÷
// all requests within the brackets. Where the rate changed in it, that is the share at the highest rate, which most of
// these requests were sent at. The time of a lower rate counts as unobserved time does.
func (w window) downtime(p model.Window, unobserved, unsure []Period, rates *Intervals) model.Length {
	slower := rates.Slower(Period{From: p.Start.Earliest, To: p.End.Latest})
	if len(slower) > 0 && p.Kind == model.Partial {
		unobserved, unsure = merge(Always, unobserved, slower), merge(Always, unsure, slower)
	}
	least := max(0, p.Length.Min-within(unsure, w.start.Latest, w.end.Earliest))
	if p.Kind == model.Outage {
		return model.Length{Min: least, Max: p.Length.Max}
	}
	unseen := within(unobserved, p.Start.Earliest, p.End.Latest)
	return model.Length{Min: scale(least, w.shareLow), Max: scale(p.Length.Max-unseen, w.shareHigh) + unseen}
}

// within returns how much of the time between two instants lies in these periods.
func within(unobserved []Period, from, to time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range touching(unobserved, from, to) {
		sum += max(0, min(d.To, to)-max(d.From, from)) // a lone failure ends before it is known
	}
	return sum
}

func scale(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * share)
}

// backendNames returns nil if no reply named its sender.
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

// Failure gives a failed request its public form. peer is where its connection went; "" if that is not told.
func Failure(r timeline.Request, target string, backends []string, peer string) model.Failure {
	return model.Failure{
		Target: target, Peer: peer, Seq: r.Seq, Due: r.Due, Sent: r.Sent, Done: r.Done,
		Class: r.Class, Code: r.Code, Backend: backendName(r.Backend, backends), Reused: r.Reused,
		DNS: r.DNS.Duration(), Connect: r.Connect.Duration(), TLS: r.TLS.Duration(), FirstByte: r.FirstByte.Duration(),
	}
}

// ClassNames returns counts by the name of their class, without those that are 0.
func ClassNames(counts *[timeline.NumClasses]int) map[string]int {
	named := map[string]int{}
	for c, n := range counts {
		if n > 0 {
			named[timeline.Class(c).String()] = n
		}
	}
	return named
}
