package correlate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// A planeCase is a run of 30 s that asks a Service 100 times per second, which always answers, and API servers 5 times
// per second each. answer says how a request that is sent at an instant ends, and after how long.
type planeCase struct {
	targets []timeline.Target
	answers []func(sent time.Duration) (timeline.Class, uint16, time.Duration)
	events  []timeline.Event
}

const planeRun = 30 * time.Second

func (c *planeCase) ask(url string, answer func(sent time.Duration) (timeline.Class, uint16, time.Duration)) {
	c.targets = append(c.targets, timeline.Target{
		ID: timeline.TargetID(len(c.targets) + 1), Source: 1, Name: "API " + url, Kind: timeline.Plane, URL: url,
		Rate: 5, Timeout: 800 * time.Millisecond,
	})
	c.answers = append(c.answers, answer)
}

func newPlaneCase() *planeCase {
	c := &planeCase{}
	c.ask("http://web/", answersWith(200))
	c.targets[0].Name, c.targets[0].Kind, c.targets[0].Rate = "web new", timeline.New, 100
	c.targets[0].Service = "shop/web"
	return c
}

func answersWith(code uint16) func(time.Duration) (timeline.Class, uint16, time.Duration) {
	return func(time.Duration) (timeline.Class, uint16, time.Duration) {
		return timeline.OK, code, time.Millisecond
	}
}

// stands is a server that answers nothing between two instants: what it gets less than a timeout before the end is
// answered then.
func stands(from, to time.Duration) func(time.Duration) (timeline.Class, uint16, time.Duration) {
	return func(sent time.Duration) (timeline.Class, uint16, time.Duration) {
		const timeout = 800 * time.Millisecond
		switch {
		case sent < from || sent >= to:
			return timeline.OK, 200, time.Millisecond
		case to-sent < timeout:
			return timeline.OK, 200, to - sent
		}
		return timeline.TimeoutResponse, 0, timeout
	}
}

// refuses is a server that is killed and comes back: nothing listens in between.
func refuses(from, to time.Duration) func(time.Duration) (timeline.Class, uint16, time.Duration) {
	return func(sent time.Duration) (timeline.Class, uint16, time.Duration) {
		if sent < from || sent >= to {
			return timeline.OK, 200, time.Millisecond
		}
		return timeline.Refused, 0, time.Millisecond
	}
}

func (c *planeCase) judge(t *testing.T) *model.Timeline {
	t.Helper()
	run := timeline.Run{
		Meta:    timeline.Meta{ID: "plane"},
		Sources: []timeline.Source{{ID: 1, Name: "coordinator", Role: timeline.Coordinator, Node: "node1"}},
		Targets: c.targets,
	}
	var b timeline.Batch
	b.Source = 1
	for i, target := range c.targets {
		phase := time.Duration(i) * 7 * time.Millisecond
		for n := uint64(0); ; n++ {
			due := phase + time.Duration(n)*target.Interval()
			if due >= planeRun {
				break
			}
			class, code, took := c.answers[i](due)
			b.Requests = append(b.Requests, timeline.Request{Target: target.ID, Seq: n, Due: due, Sent: due, Done: due + took,
				Outcome: timeline.Outcome{Class: class, Code: code}})
		}
		b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: target.ID, Due: planeRun})
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) { yield(b, nil) }
	c.events = append(c.events, timeline.Event{Kind: timeline.RunPhase, Seen: planeRun, From: "measuring", To: "ended"})
	for i := range c.events {
		c.events[i].ID, c.events[i].Source = uint32(i+1), 1
	}
	run.Events = c.events
	tl := analyzed(t, run)
	verdict.Judge(tl, gatesOf(t, "failed>0"))
	return tl
}

// holdsTruth checks that a server failed once, and that the brackets hold when it really did.
func holdsTruth(t *testing.T, s model.APIServer, from, to time.Duration) {
	t.Helper()
	if len(s.Outages) != 1 || s.NotMeasured != "" {
		t.Fatalf("%s: %+v (%s), want one outage", s.Target, s.Outages, s.NotMeasured)
	}
	o := s.Outages[0]
	if o.Start.Earliest > from || o.Start.Latest < from || o.End.Earliest > to || o.End.Latest < to ||
		o.Length.Min > to-from || o.Length.Max < to-from || o.Length.Max-o.Length.Min > 2*time.Second {
		t.Errorf("%s was out from %v to %v, and is said to have been from %v to %v, %v long", s.Target, from, to, o.Start, o.End,
			o.Length)
	}
}

// An API server that stands still or is gone, while the Service answers, is no outage of the Service.
func TestABlackoutOfTheAPIIsNoOutageOfTheService(t *testing.T) {
	const from, to = 10_050 * time.Millisecond, 15_130 * time.Millisecond
	c := newPlaneCase()
	c.ask("https://10.0.0.1:6443/livez", stands(from, to))
	c.ask("https://10.0.0.1:6443/readyz", refuses(from, to))
	c.ask("https://10.0.0.2:6443/readyz", answersWith(200))
	tl := c.judge(t)
	plane := tl.ControlPlane
	if plane == nil || len(plane.Servers) != 3 || plane.NotAsked != "" {
		t.Fatalf("control plane %+v", plane)
	}
	if s := plane.Servers[0]; s.Addr != "10.0.0.1:6443" || s.Path != "/livez" || s.Node != "node1" {
		t.Errorf("the first server is %+v", s)
	}
	holdsTruth(t, plane.Servers[0], from, to)
	holdsTruth(t, plane.Servers[1], from, to)
	if len(plane.Servers[2].Outages) > 0 {
		t.Errorf("the other server answered all the time: %+v", plane.Servers[2])
	}
	v := tl.Verdict
	if v.Result != model.Pass || v.Failed != 0 || v.Windows != 0 || len(tl.Windows)+len(tl.Incidents)+len(tl.Failures) > 0 {
		t.Errorf("%s, %d failed, %d windows, incidents %v: want a pass without any", v.Result, v.Failed, v.Windows, tl.Incidents)
	}
	if len(v.Notes) != 1 || !strings.HasPrefix(v.Notes[0], "control plane: 10.0.0.1:6443 from node1 did not answer /") {
		t.Errorf("notes %q", v.Notes)
	}
}

// What was never answered may never have been in reach: that is not measured, and no outage of 100 %.
func TestAnAPIServerThatNeverAnsweredIsNotMeasured(t *testing.T) {
	c := newPlaneCase()
	c.ask("https://10.0.0.1:6443/livez", func(time.Duration) (timeline.Class, uint16, time.Duration) {
		return timeline.TLS, 0, time.Millisecond
	})
	c.events = []timeline.Event{
		{Kind: timeline.RequestError, To: "tls", Seen: time.Second, Object: timeline.Object{Kind: "Target", Name: c.targets[1].Name},
			Detail: "x509: certificate is valid for other, not kubernetes.default.svc"},
		{Kind: timeline.PlaneNotAsked, Seen: time.Second, Detail: "no right to get EndpointSlice default/kubernetes"},
	}
	tl := c.judge(t)
	s := tl.ControlPlane.Servers[0]
	if len(s.Outages) > 0 || s.NotMeasured != "no request was answered (tls: x509: certificate is valid for other, not kubernetes.default.svc)" {
		t.Errorf("%+v", s)
	}
	want := []string{
		"control plane: not measured: no right to get EndpointSlice default/kubernetes",
		"control plane: 10.0.0.1:6443 was not measured from node1: " + s.NotMeasured,
	}
	if !slices.Equal(tl.Verdict.Notes, want) || tl.Verdict.Result != model.Pass {
		t.Errorf("%s, notes %q, want %q", tl.Verdict.Result, tl.Verdict.Notes, want)
	}
}

// A refusal is an answer, and is counted; an error of the server is none.
func TestARefusalOfTheAPIIsAnAnswer(t *testing.T) {
	const from, to = 10 * time.Second, 14 * time.Second
	c := newPlaneCase()
	c.ask("https://10.0.0.1:6443/livez", answersWith(403))
	c.ask("https://10.0.0.1:6443/readyz", func(sent time.Duration) (timeline.Class, uint16, time.Duration) {
		if sent >= from && sent < to {
			return timeline.HTTP5xx, 500, time.Millisecond
		}
		return timeline.OK, 200, time.Millisecond
	})
	tl := c.judge(t)
	refused, errors := tl.ControlPlane.Servers[0], tl.ControlPlane.Servers[1]
	if refused.Refused[403] != 150 || len(refused.Outages) > 0 || refused.NotMeasured != "" {
		t.Errorf("a server that refuses: %+v", refused)
	}
	holdsTruth(t, errors, from, to)
	if len(tl.Verdict.Notes) != 1 || !strings.Contains(tl.Verdict.Notes[0], "answered /readyz with errors for 4.0 s ±") {
		t.Errorf("notes %q", tl.Verdict.Notes)
	}
}

// The watch's lag is of the changes that a read bounds, and only said beside the control plane.
func TestTheWatchesLagIsWhatReadsBound(t *testing.T) {
	change := func(since, seen time.Duration) timeline.Event {
		return timeline.Event{Kind: timeline.EndpointChanged, Since: since, Seen: seen, From: "ready", To: "terminating", Service: "shop/web"}
	}
	events := []timeline.Event{change(0, 5*time.Second), change(8*time.Second, 8100*time.Millisecond), change(9*time.Second, 9300*time.Millisecond)}
	c := newPlaneCase()
	c.events = slices.Clone(events)
	if tl := c.judge(t); tl.ControlPlane != nil {
		t.Errorf("nobody asked the API: %+v", tl.ControlPlane)
	}
	c = newPlaneCase()
	c.ask("https://10.0.0.1:6443/livez", answersWith(200))
	c.events = slices.Clone(events)
	tl := c.judge(t)
	if lag := tl.ControlPlane.WatchLag; lag == nil || *lag != (model.WatchLag{Changes: 2, Longest: 300 * time.Millisecond}) {
		t.Errorf("lag %+v", lag)
	}
	if len(tl.Verdict.Notes) > 0 {
		t.Errorf("all went well: %q", tl.Verdict.Notes)
	}
}
