package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// validitySection says how good the measurement itself was.
func validitySection(v *view) document.Section {
	return document.Section{Title: "valid", Blocks: []document.Block{
		document.Note{Text: strings.Join(validityParts(v.Timeline, v.names), " · ")},
	}}
}

// validityParts are the figures for how good the measurement was.
func validityParts(tl *model.Timeline, names map[string]string) []string {
	v := tl.Verdict.Validity
	parts := []string{
		"coverage " + quantity.Coverage(tl.Verdict.Coverage),
		lateness(tl, names),
	}
	if v.Local > 0 {
		parts = append(parts, fmt.Sprintf(
			"%s: %s without evidence (%s)", wording.ProberFailed, quantity.Count(v.Local, "request"), v.Shortage,
		))
	}
	parts = append(parts, "control "+cmp.Or(v.Control, "absent"), fmt.Sprintf("watch gaps %d", v.WatchGaps))
	if len(v.LanesOff) > 0 {
		parts = append(parts, "not watched: "+strings.Join(v.LanesOff, ", "))
	}
	if v.NotProbed > 0 {
		parts = append(parts, quantity.Count(v.NotProbed, "Pod")+" not probed directly")
	}
	parts = append(parts, probersMissing(tl)...)
	parts = append(parts, successes(tl)...)
	if tl.Run.Unsaved != "" {
		parts = append(parts, "not all on disk: "+tl.Run.Unsaved)
	}
	for _, t := range tl.Judged() {
		if 10*t.NewConnections > t.OK {
			parts = append(parts, fmt.Sprintf("%s: %d of %s came over a new connection",
				names[t.Name], t.NewConnections, quantity.Count(t.OK, "good answer")))
		}
		parts = append(parts, skipped(tl, t.FailedAddresses, names[t.Name])...)
	}
	return parts
}

// successes are what a success proves, if all judged targets agree: the headline names those that are blind.
func successes(tl *model.Timeline) []string {
	proves := ""
	for i, t := range tl.Judged() {
		if i > 0 && t.Proves != proves || t.Blind {
			return nil
		}
		proves = t.Proves
	}
	if proves == "" {
		return nil
	}
	return []string{"a success is " + proves}
}

// probersMissing are the nodes that were to be measured from, and were not from the beginning to the end.
func probersMissing(tl *model.Timeline) (parts []string) {
	for _, n := range tl.ShortNodes() {
		if n.Target != "" {
			parts = append(parts, wording.Silence(n))
		}
	}
	for i := range tl.Events {
		switch e := &tl.Events[i]; {
		case e.Kind != timeline.ProberChanged || e.Object.IsZero():
		case e.To == "missing":
			parts = append(parts, "not measured from "+e.Object.Name+": "+e.Detail)
		case e.To == "lost":
			parts = append(parts, "the prober on "+e.Object.Name+" was lost: "+e.Detail)
		}
	}
	return parts
}

// lateness says how far the prober fell behind: one thing, whether requests were late, were not sent or were spoiled
// by it.
func lateness(tl *model.Timeline, names map[string]string) string {
	v := tl.Verdict.Validity
	late := "late " + quantity.Percent(v.Late)
	if v.NotSent == v.Local && v.Stalls == 0 {
		return late
	}
	parts := []string{"nothing unobserved"}
	if unobserved := stalled(tl); unobserved > 0 {
		parts[0] = quantity.Span(unobserved) + " unobserved"
	}
	if stalled := v.NotSent - v.Local; stalled > 0 {
		parts = append(parts, quantity.Count(stalled, "request")+" without evidence")
	}
	parts = append(parts, late)
	var slower []string
	for _, t := range tl.Judged() {
		if t.AchievedRate < 0.98*t.Rate {
			slower = append(slower, fmt.Sprintf(
				"%s sent %s/s of %s/s", names[t.Name], quantity.Number(t.AchievedRate), quantity.Number(t.Rate),
			))
		}
	}
	if len(slower) > 0 {
		parts = append(parts, listed(slower))
	}
	return "prober stalled: " + strings.Join(parts, ", ")
}

// stalled is how long the prober kept the worst judged target from being observed.
func stalled(tl *model.Timeline) time.Duration {
	totals := map[string]time.Duration{}
	for _, u := range tl.Unobserved {
		if wording.Unobserved(u.Reason) == wording.ProberStalled {
			totals[u.Target] += u.End - u.Start
		}
	}
	return slices.Max(append(slices.Collect(maps.Values(totals)), 0))
}

// maxAddresses is how many of a target's addresses that failed alike are named.
const maxAddresses = 3

// skipped lists the addresses that failed before another one answered, those that failed alike together.
func skipped(tl *model.Timeline, addresses []model.FailedAddress, target string) []string {
	least := ""
	if tl.Run.Live || tl.Run.Aborted != "" {
		least = "at least "
	}
	var parts []string
	for len(addresses) > 0 {
		class := addresses[0].Class
		var alike, others []model.FailedAddress
		for _, a := range addresses {
			if a.Class == class {
				alike = append(alike, a)
			} else {
				others = append(others, a)
			}
		}
		addresses = others
		var names []string
		for _, a := range alike[:min(len(alike), maxAddresses)] {
			names = append(names, a.Addr)
		}
		if more := len(alike) - maxAddresses; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		parts = append(parts, fmt.Sprintf("%s: %s failed (%s) before another address answered, for %s%s",
			target, strings.Join(names, ", "), class, least,
			quantity.Count(sum(alike, func(a model.FailedAddress) int { return a.Connections }), "connection")))
	}
	return parts
}
