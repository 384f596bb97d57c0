package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// runOf is a run of one target, "web new", at 100/s.
func runOf(sent, failed int, windows ...model.Window) *model.Timeline {
	tl := &model.Timeline{
		Tool: model.Tool{Version: "1"}, Run: model.RunInfo{Duration: time.Minute, Timeout: 800 * time.Millisecond,
			Join: time.Second, Slow: 500 * time.Millisecond},
		Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Rate: 100}, Sent: sent, Failed: failed,
			Resolution: 12 * time.Millisecond, Coverage: 1}},
		Windows: windows,
		Buckets: model.Buckets{Width: time.Second, Targets: map[string]model.BucketSeries{}},
		Verdict: model.Verdict{Sent: sent, Failed: failed, Coverage: 1, Validity: model.Validity{Control: "ok"}},
	}
	for i := range tl.Windows {
		tl.Windows[i].Target = "web new"
	}
	return tl
}

func windowOf(from, to time.Duration) model.Window {
	return model.Window{Kind: model.Outage, Length: model.Length{Min: from, Max: to},
		Downtime: model.Length{Min: from, Max: to}}
}

// directions are what was found of each metric, but latency where there is none.
func directions(d Diff) string {
	var found []string
	for _, c := range d.Changes {
		if c.Known() {
			found = append(found, c.Metric+" "+string(c.Direction))
		}
	}
	return strings.Join(found, ", ")
}

func TestAChangeIsWhatTheErrorBarsCannotExplain(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		about string
		a, b  *model.Timeline
		want  string
	}{
		{"nothing failed in either", runOf(6000, 0), runOf(600, 0),
			"failed unclear, downtime.total unclear, window.longest unclear"},
		{"an outage is gone", runOf(6000, 100, windowOf(990*ms, 1010*ms)), runOf(6000, 0),
			"failed less, downtime.total less, window.longest less"},
		{"an outage came", runOf(6000, 0), runOf(6000, 100, windowOf(990*ms, 1010*ms)),
			"failed more, downtime.total more, window.longest more"},
		{"an outage is a little shorter", runOf(6000, 100, windowOf(990*ms, 1010*ms)),
			runOf(6000, 98, windowOf(975*ms, 995*ms)),
			"failed unclear, downtime.total unclear, window.longest unclear"},
		{"bounds that only touch overlap", runOf(6000, 100, windowOf(990*ms, 1010*ms)),
			runOf(6000, 98, windowOf(970*ms, 990*ms)),
			"failed unclear, downtime.total unclear, window.longest unclear"},
		{"two short windows for a long one", runOf(6000, 100, windowOf(990*ms, 1010*ms)),
			runOf(6000, 100, windowOf(495*ms, 505*ms), windowOf(495*ms, 505*ms)),
			"failed unclear, downtime.total unclear, window.longest less"},
		{"one failure is gone", runOf(6000, 1, windowOf(0, 20*ms)), runOf(6000, 0),
			"failed unclear, downtime.total unclear, window.longest unclear"},
		{"the same share of ten times as many", runOf(600, 6, windowOf(50*ms, 70*ms)),
			runOf(6000, 60, windowOf(590*ms, 610*ms)), "failed unclear, downtime.total more, window.longest more"},
		{"a window that did not end has no upper bound", runOf(6000, 100, open(windowOf(990*ms, 1010*ms))),
			runOf(6000, 200, windowOf(1990*ms, 2010*ms)),
			"failed more, downtime.total unclear, window.longest unclear"},
		{"and a lower one", runOf(6000, 100, open(windowOf(990*ms, 1010*ms))), runOf(6000, 0),
			"failed less, downtime.total less, window.longest less"},
		{"shorter than what may hide in time not observed", runOf(6000, 100, windowOf(990*ms, 1010*ms)),
			withGap(runOf(5900, 0), time.Second), "failed less, downtime.total unclear, window.longest unclear"},
		{"longer than that", runOf(6000, 100, windowOf(990*ms, 1010*ms)), withGap(runOf(5900, 0), 900*ms),
			"failed less, downtime.total less, window.longest less"},
		{"shorter than the time between two requests", runOf(6000, 1, windowOf(5*ms, 11*ms)), runOf(6000, 0),
			"failed unclear, downtime.total unclear, window.longest unclear"},
		{"nothing was measured", runOf(6000, 100, windowOf(990*ms, 1010*ms)), runOf(0, 0), ""},
		{"slow answers are no downtime", runOf(6000, 0),
			runOf(6000, 0, model.Window{Kind: model.Slow, Length: model.Length{Min: time.Second, Max: time.Second}}),
			"failed unclear, downtime.total unclear, window.longest unclear"},
	} {
		if got := directions(Compare(test.a, test.b)); got != test.want {
			t.Errorf("%s: %s, want %s", test.about, got, test.want)
		}
	}
}

func open(w model.Window) model.Window {
	w.Open.End = true
	return w
}

// withGap makes a stretch of a run unobserved.
func withGap(tl *model.Timeline, d time.Duration) *model.Timeline {
	tl.Unobserved = []model.Unobserved{{Target: "web new", Start: time.Second, End: time.Second + d}}
	return tl
}

// ran is a command that succeeded.
func ran(args ...string) *model.Command {
	return &model.Command{Args: args, Start: new(5 * time.Second), End: new(6 * time.Second), ExitCode: new(0)}
}

func TestRunsThatAreUnlikeAreSaidToBe(t *testing.T) {
	for want, spoil := range map[string]func(*model.Timeline){
		"what was measured":   func(tl *model.Timeline) { tl.Run.URLs = []string{"http://other/"} },
		"judged targets":      func(tl *model.Timeline) { tl.Targets[0].Name = "api new" },
		"requests per second": func(tl *model.Timeline) { tl.Targets[0].Rate = 50 },
		"timeout":             func(tl *model.Timeline) { tl.Run.Timeout *= 2 },
		"join":                func(tl *model.Timeline) { tl.Run.Join *= 2 },
		"slow":                func(tl *model.Timeline) { tl.Run.Slow *= 2 },
		"command":             func(tl *model.Timeline) { tl.Run.Command = ran("kubectl") },
		"cluster": func(tl *model.Timeline) {
			tl.Run.Cluster = &timeline.Cluster{Version: "v1.37"}
		},
		"judged by Lapse":             func(tl *model.Timeline) { tl.Tool.Version = "2" },
		"duration":                    func(tl *model.Timeline) { tl.Run.Duration *= 2 },
		"B goes on":                   func(tl *model.Timeline) { tl.Run.Live = true },
		"B was aborted":               func(tl *model.Timeline) { tl.Run.Aborted = "interrupted" },
		"B measured nothing":          func(tl *model.Timeline) { tl.Verdict.Sent = 0 },
		"of B was observed":           func(tl *model.Timeline) { tl.Verdict.Coverage = 0.98 },
		"the prober of B had trouble": func(tl *model.Timeline) { tl.Verdict.Validity.Control = "stalled" },
	} {
		b := runOf(6000, 0)
		spoil(b)
		if got := Compare(runOf(6000, 0), b).NotComparable; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q, want one that says %q", got, want)
		}
	}
	if got := Compare(runOf(6000, 0), runOf(6000, 3)).NotComparable; len(got) != 0 {
		t.Errorf("two runs of the same kind: %q", got)
	}
}

// A run that passed because nothing was tested shows no improvement.
func TestARunThatWasNotPutToTheTestIsNotComparable(t *testing.T) {
	const s = time.Second
	run := func(change func(*model.Timeline)) *model.Timeline {
		tl := runOf(6000, 0)
		tl.Targets[0].Service = "shop/web"
		tl.Run.Command = ran("kubectl", "drain", "node1")
		endpoint := timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady}
		tl.Events = []model.Event{{Event: endpoint, At: model.Instant{Earliest: model.Unbounded}}}
		endpoint.Seen, endpoint.From, endpoint.To = 7*s, timeline.EndpointReady, timeline.EndpointTerminating
		tl.Events = append(tl.Events, model.Event{Event: endpoint, At: model.Instant{Earliest: 6 * s, Latest: 7 * s}})
		tl.Held = []model.Held{{Target: "web held", Connections: 3, Stood: 3}}
		change(tl)
		return tl
	}
	tested := func(*model.Timeline) {}
	for about, test := range map[string]struct {
		b    func(*model.Timeline)
		want string
	}{
		"its Pods had moved to another node": {func(tl *model.Timeline) { tl.Events = tl.Events[:1] },
			"in B, nothing was tested: no endpoint of shop/web left or came after `kubectl drain node1` began"},
		"its rollout had not finished": {func(tl *model.Timeline) {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, Seen: 6 * s,
				To: timeline.SnapshotChanged, Object: timeline.Object{Kind: "Deployment", Name: "web"},
				Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Generation: 2,
					Status: timeline.Replicas{Generation: 1}}}}})
		}, "in B, the rollout of Deployment web had not finished when the run ended: its status was that of the spec before"},
		"its command failed": {func(tl *model.Timeline) { tl.Run.Command.ExitCode = new(1) },
			"the command of B did not succeed: exit code 1"},
		"its command never started": {func(tl *model.Timeline) {
			tl.Run.Command.Start, tl.Run.Command.ExitCode = nil, new(127)
		}, "the command of B did not succeed: never started"},
		"it held a connection that never stood": {func(tl *model.Timeline) { tl.Held[0].Stood = 2 },
			"in B, 1 of 3 held connections never stood: what would have become of them is not known"},
		"it only held connections": {func(tl *model.Timeline) { tl.Verdict.Sent = 0 }, ""},
		"it was tested":            {tested, ""},
	} {
		d := Compare(run(tested), run(test.b))
		if got := strings.Join(d.NotComparable, "; "); got != test.want {
			t.Errorf("%s: %q, want %q", about, got, test.want)
		}
		failures, _ := ParseGroups("failures")
		if _, unknown := d.Worse(failures); (len(unknown) > 0) != (test.want != "") {
			t.Errorf("%s: unknown %q", about, unknown)
		}
	}
}

func TestCausesAreCountedByRule(t *testing.T) {
	because := func(rule string, d time.Duration) model.Window {
		w := windowOf(d, d)
		w.Causes = []model.Cause{{Rule: rule, Text: rule + " " + d.String()}}
		return w
	}
	a := runOf(6000, 9, because("route", time.Second), because("route", 3*time.Second), windowOf(1, 1))
	b := runOf(6000, 9, open(because("pinned", time.Second)))
	want := []CauseChange{
		{Rule: "route", A: CauseSide{2, model.Length{Min: 3 * time.Second, Max: 3 * time.Second}, false, "route 3s"}},
		{Rule: "pinned", B: CauseSide{1, model.Length{Min: time.Second, Max: time.Second}, true, "pinned 1s"}},
		{Rule: "unexplained", A: CauseSide{1, model.Length{Min: 1, Max: 1}, false, ""}},
	}
	got := Compare(a, b).Causes
	slices.SortStableFunc(want[1:], func(x, y CauseChange) int { return strings.Compare(x.Rule, y.Rule) })
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// withLatencies gives a run's target n latencies about a median.
func withLatencies(tl *model.Timeline, random *rand.Rand, n int, median time.Duration) *model.Timeline {
	counts := map[int]int{}
	for range n {
		counts[model.LatencyBin(time.Duration(math.Exp(random.NormFloat64()/2)*float64(median)))]++
	}
	histogram := model.SparseCounts{}
	for slot := range 400 {
		if counts[slot] > 0 {
			histogram = append(histogram, slot, counts[slot])
		}
	}
	tl.Buckets.Targets["web new"] = model.BucketSeries{Latency: []model.Histogram{model.NewHistogram(histogram)}}
	return tl
}

func TestLatencyChangesOnlyBeyondItsBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ofP50 := func(n, m int, a, b time.Duration) Direction {
		d := Compare(withLatencies(runOf(n, 0), random, n, a), withLatencies(runOf(m, 0), random, m, b))
		return d.Changes[3].Direction
	}
	for _, test := range []struct {
		n, m int
		a, b time.Duration
		want Direction
	}{
		{6000, 6000, time.Millisecond, time.Millisecond, Unclear},
		{6000, 6000, time.Millisecond, 1050 * time.Microsecond, Unclear}, // within a slot
		{6000, 6000, time.Millisecond, 2 * time.Millisecond, More},
		{6000, 6000, 2 * time.Millisecond, time.Millisecond, Less},
		{5, 5, time.Millisecond, 9 * time.Millisecond, Unclear}, // five values bound no quantile
	} {
		if got := ofP50(test.n, test.m, test.a, test.b); got != test.want {
			t.Errorf("%d about %v, then %d about %v: %s, want %s", test.n, test.a, test.m, test.b, got, test.want)
		}
	}
}

// The ranks hold the quantile at least 99 times in 100, and are not much wider than they must be.
func TestQuantileRanksHoldTheQuantile(t *testing.T) {
	if below, above := quantileRanks(1000, 0.5); below != 459 || above != 542 {
		t.Errorf("the median of 1000 lies between ranks %d and %d, want 459 and 542", below, above)
	}
	for _, test := range []struct {
		n int
		q float64
	}{{1, 0.5}, {7, 0.5}, {100, 0.99}, {1000, 0.9}, {6000, 0.999}, {500_000, 0.5}} {
		below, above := quantileRanks(test.n, test.q)
		missed := 0.0
		if below > 0 {
			missed += exactAtMost(below-1, test.n, test.q)
		}
		if above <= test.n {
			missed += 1 - exactAtMost(above-1, test.n, test.q)
		}
		if missed > 0.01 || below < 0 || above > test.n+1 {
			t.Errorf("n %d, q %v: ranks %d and %d miss it with probability %v", test.n, test.q, below, above, missed)
		}
	}
}

// exactAtMost adds up the binomial distribution.
func exactAtMost(k, n int, p float64) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	sum := 0.0
	for i := range k + 1 {
		sum += math.Exp(lgamma(n) - lgamma(i) - lgamma(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// D4: where Pods are decides latency, so that a gate on every figure fails on the good news.
func TestWorseIsOnlyWhatIsAskedFor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	before := withLatencies(runOf(6000, 100, windowOf(990*time.Millisecond, 1010*time.Millisecond)), random, 5900, time.Millisecond)
	after := withLatencies(runOf(6000, 0), random, 6000, 4*time.Millisecond)
	d := Compare(before, after)
	failures, _ := ParseGroups("failures,downtime")
	if worse, unknown := d.Worse(failures); len(worse)+len(unknown) > 0 {
		t.Errorf("worse %q, unknown %q", worse, unknown)
	}
	latency, _ := ParseGroups("latency")
	if worse, _ := d.Worse(latency); !slices.Contains(worse, "p50 of web new") {
		t.Errorf("worse %q: want p50", worse)
	}
	back := Compare(after, before)
	if worse, _ := back.Worse(failures); !slices.Equal(worse, []string{"failures of all targets", "failures of web new", "downtime of web new"}) {
		t.Errorf("worse %q", worse)
	}
}

func TestWorseIsUnknownWhereRunsAreNotComparable(t *testing.T) {
	after := runOf(6000, 0)
	after.Run.Timeout = 2 * time.Second
	groups, _ := ParseGroups("failures")
	if worse, unknown := Compare(runOf(6000, 100), after).Worse(groups); len(worse) > 0 || len(unknown) != 1 {
		t.Errorf("worse %q, unknown %q: want one reason", worse, unknown)
	}
}

// D5: the second drain names the node that the Pod is on now.
func TestAnotherNodeIsNotAnotherCommand(t *testing.T) {
	drain := func(node string, words ...string) *model.Timeline {
		tl := runOf(6000, 0)
		tl.Run.Command = ran(words...)
		tl.Pods = []model.Pod{{Node: node}}
		return tl
	}
	a := drain("node1", "kubectl", "drain", "node1", "--force")
	for about, test := range map[string]struct {
		b     *model.Timeline
		notes string
	}{
		"another node":         {drain("node2", "kubectl", "drain", "node/node2", "--force"), ""},
		"its plain name":       {drain("node2", "kubectl", "drain", "node2", "--force"), "the command names another node: node1 in A, node2 in B"},
		"a name unknown to it": {drain("node2", "kubectl", "drain", "node3", "--force"), ""},
	} {
		d := Compare(a, test.b)
		if notes := strings.Join(d.Notes, "; "); notes != test.notes || (len(d.NotComparable) == 0) != (notes != "") {
			t.Errorf("%s: notes %q, not comparable %q", about, d.Notes, d.NotComparable)
		}
	}
}
