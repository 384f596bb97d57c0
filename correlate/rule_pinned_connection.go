package correlate

import (
	"fmt"
	"time"

	"lapse/timeline"
)

// pinned-connection: persistent connections are pinned to the Pod they were opened to. When it ends
// they are cut, with a reset or in the middle of a reply, while new connections go elsewhere and are
// well. No route is to blame: the Pod did not ask its clients to leave.
//
//	new     ok ok ok ok ok ok ok
//	reused  ok ok x  x  ok ok ok      reset or closed as the Pod stopped, then redialled

// drainMargin is added to the longest request seen: how much longer another one may take.
const drainMargin = time.Second

func pinnedConnection(v *view, w *Window) (*Cause, string) {
	cut := some(w.Classes, timeline.Reset, timeline.EOF)
	switch {
	case v.target(w).Kind != timeline.Reused:
		return nil, "the connections were not persistent"
	case cut == 0:
		return nil, "no connection was cut"
	}
	p, stop, proved := pinnedTo(v, w)
	if p == nil {
		return nil, "no Pod ended " + between(w.Start)
	}
	cause := &Cause{
		Confidence: High,
		Text:       fmt.Sprintf("%s cut %s on persistent connections when it stopped", p.Name, count(cut, "request")),
		Fix:        pinnedFix(v, w, p, cut),
		Evidence: append([]Evidence{
			{Target: v.direct(p), At: &stop, Text: p.Name + " stopped"},
			{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + classCounts(w.Classes)},
		}, signsOfEnd(v, p)...),
	}
	if !proved {
		cause.Confidence = Medium
		cause.Rivals = append(cause.Rivals, "its stop is only known from the watch: any change about that time fits as well")
	}
	weighNew(v, w, cause)
	if !only(w.Classes, timeline.Reset, timeline.EOF) {
		cause.Confidence = lower(cause.Confidence, Medium)
		cause.Rivals = append(cause.Rivals, "failures of other kinds are among them: "+classCounts(w.Classes))
	}
	return cause, ""
}

// pinnedTo finds the ending Pod at whose stop, or exit, the window opened.
func pinnedTo(v *view, w *Window) (pod *Pod, at Instant, proved bool) {
	for _, p := range v.pods(w) {
		switch {
		case !p.terminatingBy(w.End.Latest):
		case p.Stopped != nil && p.Stopped.overlaps(v.onset(w)):
			return p, *p.Stopped, true
		case p.Exited != nil && p.Exited.overlaps(v.onset(w)) && pod == nil:
			pod, at = p, *p.Exited
		}
	}
	return pod, at, false
}

// weighNew asks the target that opens a new connection per request: if it was well, the routes were.
func weighNew(v *view, w *Window, c *Cause) {
	t := v.target(w)
	for _, fresh := range v.run.Targets {
		if fresh.Kind != timeline.New || fresh.Service != t.Service || fresh.Source != t.Source {
			continue
		}
		if trouble := v.windowNear(t, timeline.New, w.span()); trouble != nil {
			c.Confidence = lower(c.Confidence, Medium)
			c.Rivals = append(c.Rivals, fmt.Sprintf("new connections failed as well: %s", classCounts(trouble.Classes)))
			return
		}
		c.Evidence = append(c.Evidence, Evidence{Target: fresh.Name, Text: "new connections did not fail"})
		return
	}
	c.Confidence = lower(c.Confidence, Medium)
	c.Rivals = append(c.Rivals, "no target opened new connections: the routes may have failed as well")
}

// pinnedFix says how to let clients go: tell them, and wait for what is in flight.
func pinnedFix(v *view, w *Window, p *Pod, cut int) string {
	longest := time.Duration(0)
	for _, t := range v.run.Targets {
		if t.Kind.Judged() && t.Service == v.target(w).Service && t.Latency != nil {
			longest = max(longest, t.Latency.Max)
		}
	}
	return fmt.Sprintf("from SIGTERM on answer with Connection: close, and keep serving ≥ %s before exiting, until every client has been told (the longest request took %s): %s cut %s",
		span(roundUp(longest+drainMargin)), span(longest), p.Name, count(cut, "request"))
}
