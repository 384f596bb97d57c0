package verdict

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// fleetOf is a run of 20 s in which three nodes measure shop/web over new and kept connections. Its probers were
// ready after 3 s.
func fleetOf() *model.Timeline {
	tl := &model.Timeline{Run: model.RunInfo{Duration: 23 * time.Second}}
	tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.RunPhase, To: string(timeline.PhaseBaseline)},
		At: model.Instant{Earliest: 3 * time.Second, Latest: 3 * time.Second}})
	for i := range 3 {
		node := fmt.Sprintf("node%d", i+1)
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "measuring",
			Object: timeline.Object{Kind: "Node", Name: node}}})
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			tl.Targets = append(tl.Targets, model.Target{
				Target: timeline.Target{
					Name: fmt.Sprintf("web %s from %s", kind, node), Kind: kind, Service: "shop/web",
					URL: "http://web.shop/",
				}, Node: node, Source: "prober-" + node,
				Sent: 1000, OK: 1000, Coverage: 1, SharedCoverage: new(1.0), GapLimit: 50 * time.Millisecond,
				// each begins when it is ready
				Measured: model.Instant{Earliest: time.Duration(i)*time.Second + 5*time.Millisecond,
					Latest: 23 * time.Second},
			})
		}
	}
	return tl
}

// downAtFirst adds a node that was not ready when the run began, and whose prober was lost before.
func downAtFirst(tl *model.Timeline, node string) {
	object := timeline.Object{Kind: "Node", Name: node}
	tl.Events = append(tl.Events,
		model.Event{Event: timeline.Event{Kind: timeline.NodeReady, To: "unknown", Object: object}},
		model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "lost", Object: object}})
}

// goesDown makes a node not ready 10 s after its prober fell silent.
func goesDown(tl *model.Timeline, node, schedulable string) {
	const second = time.Second
	object := timeline.Object{Kind: "Node", Name: node}
	unseen(tl, "web new from "+node, 8*second, 23*second)
	unseen(tl, "web reused from "+node, 8*second, 23*second)
	tl.Events = append(tl.Events,
		model.Event{At: model.Instant{Earliest: 5 * second, Latest: 5 * second},
			Event: timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: schedulable, Object: object}},
		model.Event{At: model.Instant{Earliest: 17 * second, Latest: 18 * second},
			Event: timeline.Event{Kind: timeline.NodeReady, From: "true", To: "unknown", Object: object}})
}

// removedBy makes a node that was tainted, and not cordoned, not ready.
func removedBy(tl *model.Timeline, taint string) {
	goesDown(tl, "node2", "true")
	mark := &tl.Events[len(tl.Events)-2]
	mark.Kind, mark.From, mark.To, mark.Detail = timeline.NodeTaint, "absent", "present", taint
}

// before adds an event of node2 a moment before it goes down.
func before(tl *model.Timeline, e timeline.Event) {
	down := tl.Events[len(tl.Events)-1]
	e.Object = timeline.Object{Kind: "Node", Name: "node2"}
	tl.Events[len(tl.Events)-1] = model.Event{Event: e, At: model.Instant{Earliest: 6 * time.Second, Latest: 6 * time.Second}}
	tl.Events = append(tl.Events, down)
}

// leaves removes a node from the cluster, and with it its prober.
func leaves(tl *model.Timeline, node string, at time.Duration) {
	tl.Events = append(tl.Events, model.Event{At: model.Instant{Earliest: at, Latest: at},
		Event: timeline.Event{Kind: timeline.NodeGone, Object: timeline.Object{Kind: "Node", Name: node}}})
	for i := range tl.Targets {
		if t := &tl.Targets[i]; t.Node == node {
			t.Measured.Latest = at
		}
	}
}

// ready makes a node ready.
func ready(tl *model.Timeline, node, from string, at time.Duration) {
	when := model.Instant{Earliest: at - 500*time.Millisecond, Latest: at}
	if from == "" {
		when.Earliest = model.Unbounded // as of all that a list finds
	}
	tl.Events = append(tl.Events, model.Event{At: when, Event: timeline.Event{
		Kind: timeline.NodeReady, From: from, To: "true", Object: timeline.Object{Kind: "Node", Name: node}}})
}

// measures lets a prober begin on a node.
func measures(tl *model.Timeline, node string, at time.Duration) {
	tl.Events = append(tl.Events, model.Event{At: model.Instant{Earliest: at, Latest: at}, Event: timeline.Event{
		Kind: timeline.ProberChanged, To: "measuring", Object: timeline.Object{Kind: "Node", Name: node}}})
}

// goesOn lets the run, and what lasts to its end, go on for longer.
func goesOn(tl *model.Timeline, length time.Duration) {
	end := 23 * time.Second
	for i := range tl.Targets {
		if t := &tl.Targets[i]; t.Measured.Latest == end {
			t.Measured.Latest += length
		}
	}
	for i := range tl.Unobserved {
		if u := &tl.Unobserved[i]; u.End == end {
			u.End += length
		}
	}
	tl.Run.Duration += length
}

// unseen adds time in which a target was not observed.
func unseen(tl *model.Timeline, target string, from, to time.Duration) {
	tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: target, Start: from, End: to,
		Reason: model.ReasonLost})
}

// A run from several nodes passes only if each node observed enough, whatever the others saw.
func TestEachNodeMustObserveEnough(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name   string
		change func(*model.Timeline)
		exit   int
		says   string
	}{
		{"all observed all the time", func(*model.Timeline) {}, ExitPassed, ""},
		{"a prober fell silent", func(tl *model.Timeline) {
			unseen(tl, "web new from node2", 8*second, 23*second)
			unseen(tl, "web reused from node2", 8*second, 23*second)
		}, ExitInconclusive, "node2 observed 25 % and was silent for 15 s (web"},
		{"one target's view was lost", func(tl *model.Timeline) {
			unseen(tl, "web reused from node3", 5*second, 6*second)
		},
			ExitInconclusive, "node3 observed 95 % and was silent for 1 s (web reused from node3)"},
		{"a node has no target of a kind", func(tl *model.Timeline) {
			tl.Targets = tl.Targets[:5]
		}, ExitInconclusive, "node3 observed nothing"},
		{"a prober never started", func(tl *model.Timeline) {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "missing",
				Object: timeline.Object{Kind: "Node", Name: "node4"}}})
		}, ExitInconclusive, "node4 observed nothing"},
		{"a prober that was missing started late", func(tl *model.Timeline) {
			tl.Events[3].To, tl.Events[3].At = "missing", model.Instant{Earliest: 10 * second, Latest: 10 * second}
			measures(tl, "node3", 12*second)
			tl.Targets[4].Measured.Earliest, tl.Targets[5].Measured.Earliest = 12*second, 12*second
		}, ExitInconclusive, "node3 observed 86.15 % and was silent for 1.8 s"},
		{"a prober was missing on a node that was down when the run began", func(tl *model.Timeline) {
			downAtFirst(tl, "node4")
			tl.Events[len(tl.Events)-1].To = "missing"
		}, ExitPassed, ""},
		{"a node joined the cluster, and another one left it", func(tl *model.Timeline) {
			begins, ends := model.Instant{Earliest: 12 * second, Latest: 12 * second}, model.Instant{Earliest: 15 * second, Latest: 15 * second}
			tl.Events[3].At = begins
			tl.Events = append(tl.Events, model.Event{At: ends, Event: timeline.Event{Kind: timeline.NodeGone,
				Object: timeline.Object{Kind: "Node", Name: "node1"}}})
			for i := range tl.Targets {
				switch t := &tl.Targets[i]; t.Node {
				case "node1":
					t.Measured.Latest = ends.Latest
				case "node3":
					t.Measured.Earliest = begins.Earliest
				}
			}
		}, ExitPassed, ""},
		{"a node left the cluster and came back without a prober", func(tl *model.Timeline) {
			leaves(tl, "node1", 15*second)
			ready(tl, "node1", "", 18*second)
			goesOn(tl, time.Minute)
		}, ExitInconclusive, "node1 observed 70.58 % and was silent for 5 s"},
		{"a node left the cluster and came back, and its prober was about to", func(tl *model.Timeline) {
			leaves(tl, "node1", 15*second)
			ready(tl, "node1", "", 18*second)
		}, ExitPassed, ""},
		{"its prober came back after a while, and was lost again", func(tl *model.Timeline) {
			leaves(tl, "node1", 15*second)
			ready(tl, "node1", "", 17*second)
			measures(tl, "node1", 18*second)
			tl.Targets[0].Measured.Latest, tl.Targets[1].Measured.Latest = 23*second, 23*second
			unseen(tl, tl.Targets[0].Name, 15*second, 18*second)
			unseen(tl, tl.Targets[0].Name, 20*second, 23*second)
		}, ExitInconclusive, "was silent for 3 s"},
		{"its prober came back, too, and was lost again", func(tl *model.Timeline) {
			leaves(tl, "node1", 15*second)
			measures(tl, "node1", 18*second)
			tl.Targets[0].Measured.Latest, tl.Targets[1].Measured.Latest = 23*second, 23*second
			unseen(tl, tl.Targets[0].Name, 15*second, 18*second)
			unseen(tl, tl.Targets[0].Name, 20*second, 23*second)
		}, ExitInconclusive, "was silent for 3 s"},
		{"it measured to the end", func(tl *model.Timeline) {
			leaves(tl, "node1", 15*second)
			measures(tl, "node1", 18*second)
			tl.Targets[0].Measured.Latest, tl.Targets[1].Measured.Latest = 23*second, 23*second
			unseen(tl, tl.Targets[0].Name, 15*second, 18*second)
			unseen(tl, tl.Targets[1].Name, 15*second, 18*second)
		}, ExitPassed, ""},
		{"a node left the cluster 8 s after its prober", func(tl *model.Timeline) {
			tl.Events = append(tl.Events, model.Event{At: model.Instant{Earliest: 23 * second}, Event: timeline.Event{Kind: timeline.NodeGone,
				Object: timeline.Object{Kind: "Node", Name: "node1"}}})
			tl.Targets[0].Measured.Latest, tl.Targets[1].Measured.Latest = 15*second, 15*second
		}, ExitInconclusive, "node1 observed 60.2"},
		{"a node was down when the run began", func(tl *model.Timeline) { downAtFirst(tl, "node4") }, ExitPassed, ""},
		{"a node without a prober was up", func(tl *model.Timeline) {
			downAtFirst(tl, "node4")
			tl.Events[len(tl.Events)-2].To = "true"
		}, ExitInconclusive, "node4 observed nothing"},
		{"a node was down when the run began, and its prober did not start when it was up", func(tl *model.Timeline) {
			downAtFirst(tl, "node4")
			ready(tl, "node4", "unknown", 12*second)
			goesOn(tl, time.Minute)
		}, ExitInconclusive, "node4 observed nothing"},
		{"a drained node was rebooted", func(tl *model.Timeline) { goesDown(tl, "node2", "false") }, ExitPassed, ""},
		{"Karpenter removed a node", func(tl *model.Timeline) { removedBy(tl, "karpenter.sh/disrupted:NoSchedule") },
			ExitPassed, ""},
		{"Karpenter took its taint back before a node went down", func(tl *model.Timeline) {
			removedBy(tl, "karpenter.sh/disrupted:NoSchedule")
			before(tl, timeline.Event{Kind: timeline.NodeTaint, From: "present", To: "absent", Detail: "karpenter.sh/disrupted:NoSchedule"})
		}, ExitInconclusive, "node2 observed 25 % and was silent for 15 s"},
		{"Karpenter removed another node of that name before", func(tl *model.Timeline) {
			removedBy(tl, "karpenter.sh/disrupted:NoSchedule")
			before(tl, timeline.Event{Kind: timeline.NodeGone})
			ready(tl, "node2", "", 6500*time.Millisecond)
			tl.Events = append(tl.Events[:len(tl.Events)-2], tl.Events[len(tl.Events)-1], tl.Events[len(tl.Events)-2])
			measures(tl, "node2", 6500*time.Millisecond)
		}, ExitInconclusive, "node2 observed"},
		{"a node went down that was tainted for something else", func(tl *model.Timeline) { removedBy(tl, "gpu:NoSchedule") },
			ExitInconclusive, "node2 observed 25 % and was silent for 15 s"},
		{"its prober fell silent long before it went down", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			goesOn(tl, 3*time.Minute)
			tl.Events[len(tl.Events)-1].At = model.Instant{Earliest: 93 * second, Latest: 94 * second}
		}, ExitInconclusive, "was silent for 10 s"},
		{"it was ready again, and its prober did not come back", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			ready(tl, "node2", "unknown", 19*second)
			goesOn(tl, time.Minute)
		}, ExitInconclusive, "node2 observed 55.55 % and was silent for 4 s"},
		{"it was ready again, and its prober was about to come back", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			ready(tl, "node2", "unknown", 19*second)
		}, ExitPassed, ""},
		{"it was ready for a while, and went down again", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			down := tl.Events[len(tl.Events)-1]
			ready(tl, "node2", "unknown", 19*second)
			goesOn(tl, 2*time.Minute)
			down.At = model.Instant{Earliest: 80 * second, Latest: 81 * second}
			tl.Events = append(tl.Events, down)
		}, ExitInconclusive, "was silent for 2 s"},
		{"it was ready again, and its prober measured at once", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			ready(tl, "node2", "unknown", 19*second)
			for i := range tl.Unobserved {
				tl.Unobserved[i].End = 19100 * time.Millisecond
			}
		}, ExitPassed, ""},
		{"one that was rebooted had missed something before", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			unseen(tl, "web new from node2", 6*second, 7*second)
		}, ExitInconclusive, "node2 observed 80 % and was silent for 1 s"},
		{"a node went down that was not drained", func(tl *model.Timeline) { goesDown(tl, "node2", "true") },
			ExitInconclusive, "node2 observed 25 % and was silent for 15 s"},
		{"a drained node stayed up, and its prober fell silent", func(tl *model.Timeline) {
			goesDown(tl, "node2", "false")
			tl.Events = tl.Events[:len(tl.Events)-1]
		}, ExitInconclusive, "node2 observed 25 % and was silent for 15 s"},
		{"a node that was down is measured from again", func(tl *model.Timeline) {
			downAtFirst(tl, "node3")
			tl.Events = append(tl.Events[:3], tl.Events[4:]...)
			back := tl.Events[2]
			back.At, back.Object.Name = model.Instant{Earliest: 12 * second, Latest: 12 * second}, "node3"
			tl.Events = append(tl.Events, back)
			tl.Targets[4].Measured.Earliest, tl.Targets[5].Measured.Earliest = 12*second, 12*second
		}, ExitPassed, ""},
		{"all but one never started", func(tl *model.Timeline) {
			tl.Targets = tl.Targets[:2]
			for i := range tl.Events[1:] {
				tl.Events[i+1].To = "missing"
			}
		}, ExitInconclusive, "node2 observed nothing; node3 observed nothing"},
		{"a prober was lost and another took over at once", func(tl *model.Timeline) {
			again(tl, 10*second, 10100*time.Millisecond)
		}, ExitPassed, ""},
		{"a prober was lost and another took over late", func(tl *model.Timeline) { again(tl, 10*second, 12*second) },
			ExitInconclusive, "node1 observed 90.25 % and was silent for 1.95 s"},
		{"less is accepted", func(tl *model.Timeline) {
			unseen(tl, "web new from node2", 8*second, 23*second)
			tl.Run.MinNodeCoverage = new(0.2)
		}, ExitPassed, ""},
		{"silent nodes are accepted", func(tl *model.Timeline) {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "missing",
				Object: timeline.Object{Kind: "Node", Name: "node4"}}})
			tl.Run.MinNodeCoverage = new(0.0)
		}, ExitPassed, ""},
		{"the machine outside measures by itself", func(tl *model.Timeline) {
			tl.Targets = append(tl.Targets, model.Target{
				Target: timeline.Target{
					Name: "web outside", Kind: timeline.New, Service: "shop/web", URL: "http://192.0.2.1/",
				},
				Source: "laptop", Sent: 100, OK: 100, Coverage: 1,
				Measured: model.Instant{Earliest: 4 * second, Latest: 23 * second},
			})
		}, ExitPassed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tl := fleetOf()
			tt.change(tl)
			Judge(tl, []Gate{mustGate(t, "failed>0")})
			if got := tl.Verdict.ExitCode; got != tt.exit {
				t.Errorf("exit code %d, want %d: %q", got, tt.exit, tl.Verdict.Reasons)
			}
			if all := strings.Join(tl.Verdict.Reasons, "\n"); !strings.Contains(all, tt.says) {
				t.Errorf("the reasons do not say %q:\n%s", tt.says, all)
			}
		})
	}
}

// again is the loss of node1's prober at one instant, and a new one that measures from another on.
func again(tl *model.Timeline, lost, back time.Duration) {
	for _, target := range tl.Targets[:2] {
		unseen(tl, target.Name, lost, 23*time.Second)
		target.Name += " (prober 2)"
		target.Source, target.Measured.Earliest = "prober-node1-again", back
		tl.Targets = append(tl.Targets, target)
	}
}

func mustGate(t *testing.T, expr string) Gate {
	t.Helper()
	g, err := ParseGate(expr)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSourcesCoverageCountsANodeThatNeverMeasured(t *testing.T) {
	tl := fleetOf()
	tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.ProberChanged, To: "missing",
		Object: timeline.Object{Kind: "Node", Name: "node4"}}})
	tl.Run.MinNodeCoverage = new(0.0)
	Judge(tl, []Gate{mustGate(t, "sources.coverage<99%")})
	if tl.Verdict.ExitCode != ExitGateFailed {
		t.Errorf("exit code %d, want %d: %+v", tl.Verdict.ExitCode, ExitGateFailed, tl.Verdict.Gates)
	}
}
