package correlate

import (
	"fmt"
	"time"

	"lapse/timeline"
)

// nearBy is how far from a window's onset a change is still worth mentioning when no rule speaks.
const nearBy = 2 * time.Second

// maxNear caps how many changes an unexplained window lists.
const maxNear = 10

// unexplained is the honest answer where no rule spoke: what changed about the time, and why each
// rule kept silent.
func unexplained(v *view, w *Window, silent []string) Cause {
	near, more := nearOnset(v, w)
	alike := failedAlike(v, w)
	text := "no rule fits, and nothing was seen to change within " + span(nearBy) + " of its onset"
	if len(near) > 0 {
		text = fmt.Sprintf("no rule fits: %s near its onset, none of them known to do this", count(len(near)+more, "change"))
	}
	return Cause{Rule: "unexplained", Confidence: Low, Text: text, Evidence: append(alike, near...), Rivals: append([]string{}, silent...)}
}

// failedAlike lists the Pods whose own addresses failed at the window's onset.
func failedAlike(v *view, w *Window) []Evidence {
	alike := []Evidence{}
	for _, p := range v.pods(w) {
		if trouble := v.outageNear(v.direct(p), v.onset(w)); trouble != nil {
			alike = append(alike, Evidence{
				Target: v.direct(p), At: &trouble.Start,
				Text: fmt.Sprintf("%s failed at its own address as well: %s", p.Name, classCounts(trouble.Classes)),
			})
		}
	}
	return alike
}

// nearOnset lists the changes whose brackets come near the window's onset, and counts those beyond
// the cap.
func nearOnset(v *view, w *Window) (near []Evidence, more int) {
	near = []Evidence{}
	about := Instant{Earliest: w.Start.Earliest - nearBy, Latest: w.Start.Latest + nearBy}
	changes := v.changesNear(about)
	shown := min(len(changes), maxNear)
	for _, e := range changes[:shown] {
		near = append(near, Evidence{Event: e.ID, At: new(e.At), Text: describe(e)})
	}
	return near, len(changes) - shown
}

// isChange reports whether the event can have had an effect on traffic, unlike our own bookkeeping.
func isChange(e *Event) bool {
	switch e.Kind {
	case timeline.RunPhase, timeline.CommandOutput, timeline.TargetChanged, timeline.WatchLane, timeline.RequestError, timeline.AddressFailed:
		return false
	}
	return true
}

// describe says in a few words what an event was.
func describe(e *Event) string {
	text := string(e.Kind)
	if e.Object != nil && e.Object.Name != "" {
		text += " " + e.Object.Name
	}
	switch {
	case e.From != "" && e.To != "":
		text += " " + e.From + " → " + e.To
	case e.To != "":
		text += " " + e.To
	}
	return text
}
