package correlate

import (
	"testing"
	"time"

	"lapse/timeline"
)

func TestEventHappenedNoLaterThanSeenAndNoEarlierThanItsLagAllows(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, tt := range []struct {
		name  string
		event timeline.Event
		want  Instant
	}{
		{"written by the API server", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 10 * time.Second}, Instant{9 * time.Second, 10 * time.Second}},
		{"noticed by a kubelet", timeline.Event{Kind: timeline.PodContainer, Object: pod, Seen: 10 * time.Second}, Instant{7 * time.Second, 10 * time.Second}},
		{"proved by Since", timeline.Event{Kind: timeline.PodGone, Object: pod, Since: 2 * time.Second, Seen: 10 * time.Second}, Instant{2 * time.Second, 10 * time.Second}},
		{"a stall", timeline.Event{Kind: timeline.ProberStall, Since: 9 * time.Second, Seen: 10 * time.Second}, Instant{9 * time.Second, 10 * time.Second}},
		{"our own doing", timeline.Event{Kind: timeline.RunPhase, Seen: 10 * time.Second}, Instant{10 * time.Second, 10 * time.Second}},
		{"a stamp narrows nothing", timeline.Event{Kind: timeline.KubeEvent, Object: pod, Seen: 10 * time.Second, Stamp: time.Unix(9, 999)}, Instant{7 * time.Second, 10 * time.Second}},
		{"just after the start", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 100 * ms}, Instant{-900 * ms, 100 * ms}},
		{"an endpoint as first listed", timeline.Event{Kind: timeline.EndpointChanged, To: "ready", Object: pod, Seen: 10 * time.Second}, Instant{Unbounded, 10 * time.Second}},
		{"an endpoint that came", timeline.Event{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 10 * time.Second}, Instant{9 * time.Second, 10 * time.Second}},
	} {
		if got := place([]timeline.Event{tt.event})[0].At; got != tt.want {
			t.Errorf("%s: at %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestStateOfAListedPodMayBeOlderThanTheRun(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	placed := place([]timeline.Event{
		{Kind: timeline.PodSeen, Object: pod, Seen: ms, Detail: "listed"},
		{Kind: timeline.PodReady, To: "true", Object: pod, Seen: ms},
		{Kind: timeline.PodReady, From: "true", To: "false", Object: pod, Seen: 10 * time.Second},
		{Kind: timeline.PodSeen, Object: timeline.Object{Kind: "Pod", UID: "u2"}, Seen: ms, Detail: "watched"},
		{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 30 * ms},
		{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 5 * time.Second},
	})
	for i, want := range []time.Duration{Unbounded, Unbounded, 7 * time.Second, ms - watchLag, Unbounded, 4 * time.Second} {
		if placed[i].At.Earliest != want {
			t.Errorf("event %d: no earlier than %v, want %v", i, placed[i].At.Earliest, want)
		}
	}
}

// A Service's selector is changed and restored: what is told of the Pod anew is no change, that its endpoint came back is one, and
// what the first list told stays as old as it was.
func TestPodThatComesBackIsToldAnewAndHasNotChanged(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, detail := range []string{"listed", "watched"} {
		placed := place([]timeline.Event{
			{Kind: timeline.PodSeen, Object: pod, Seen: ms, Detail: "listed"},
			{Kind: timeline.PodReady, To: "true", Object: pod, Seen: ms},
			{Kind: timeline.PodGone, Object: pod, Seen: 5 * time.Second, Detail: timeline.NoLongerSelected},
			{Kind: timeline.PodSeen, Object: pod, Seen: 9 * time.Second, Detail: detail},
			{Kind: timeline.PodReady, To: "true", Object: pod, Seen: 9 * time.Second},
			{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 9 * time.Second},
		})
		for i, want := range []time.Duration{Unbounded, Unbounded, 4 * time.Second, Unbounded, Unbounded, 8 * time.Second} {
			if placed[i].At.Earliest != want {
				t.Errorf("%s, event %d: no earlier than %v, want %v", detail, i, placed[i].At.Earliest, want)
			}
		}
	}
}

// The watch that stood still had no gap of its own, but the whole API server did.
func TestGapOfEverythingStretchesEveryWatch(t *testing.T) {
	gap := timeline.Event{Kind: timeline.WatchGap, Since: 5 * time.Second, Seen: 20 * time.Second}
	crash := timeline.Event{Kind: timeline.PodContainer, From: "running", To: "terminated", Object: timeline.Object{Kind: "Pod", UID: "u1"}, Seen: 20750 * ms}
	if got := place([]timeline.Event{gap, crash})[1].At; got != (Instant{2 * time.Second, 20750 * ms}) {
		t.Errorf("a crash seen after it happened in %v, want 2 s to 20.75 s", got)
	}
}

func TestWatchGapStretchesWhatComesInItsWake(t *testing.T) {
	gap := timeline.Event{Kind: timeline.WatchGap, Since: 2 * time.Second, Seen: 8 * time.Second, Object: timeline.Object{Kind: "Pod"}}
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, tt := range []struct {
		name  string
		event timeline.Event
		want  time.Duration
	}{
		{"in its wake, or on its way when the gap began", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 8500 * ms}, time.Second},
		{"in its wake, noticed by a kubelet", timeline.Event{Kind: timeline.PodContainer, Object: pod, Seen: 8500 * ms}, -time.Second},
		{"long after", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 20 * time.Second}, 19 * time.Second},
		{"another watch", timeline.Event{Kind: timeline.EndpointChanged, From: "ready", Object: pod, Seen: 8500 * ms}, 7500 * ms},
	} {
		if got := place([]timeline.Event{gap, tt.event})[1].At.Earliest; got != tt.want {
			t.Errorf("%s: no earlier than %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPlacingKeepsWhatTheFactSays(t *testing.T) {
	stamp := time.Unix(1700000000, 5)
	e := timeline.Event{ID: 7, Seen: time.Second, Stamp: stamp, Writer: "kubelet/node1", Kind: timeline.KubeEvent, From: "a", To: "Killing", Object: timeline.Object{Kind: "Pod", UID: "u1"}, Code: 3, Detail: "why"}
	bare := place([]timeline.Event{{ID: 8, Kind: timeline.RunPhase}})[0]
	p := place([]timeline.Event{e})[0]
	if p.ID != 7 || p.Seen != e.Seen || !p.Stamp.Equal(stamp) || p.Writer != e.Writer || p.Kind != e.Kind || p.From != "a" || p.To != "Killing" || *p.Object != e.Object || p.Code != 3 || p.Detail != "why" {
		t.Errorf("%+v became %+v", e, p)
	}
	if bare.Object != nil || bare.Stamp != nil || bare.Addr != "" {
		t.Errorf("what was not seen is not absent: %+v", bare)
	}
}
