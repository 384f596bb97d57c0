package trend

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
)

var began = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

// run is the n-th drain of shop/web, in which so many of 1000 requests failed; each is 10 ms of downtime.
func run(n, failed int, changes ...func(*history.Line)) history.Line {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	l := history.Line{
		History: 1, Run: fmt.Sprint("run-", n), T0: began.Add(time.Duration(n) * time.Hour), Service: "shop/web",
		Triggers: []history.Trigger{{Kind: model.NodeDrained, Object: fmt.Sprint("Node/", n)}},
		Release:  history.Release{Templates: []string{"aaaa"}}, Kubernetes: "v1.36.3", ProxyMode: "iptables",
		Load: []history.Load{{Kind: "new", Rate: 100}}, Sent: 1000, Failed: failed, Coverage: 1, Verdict: model.Pass, Lapse: "v1",
		Downtime: &model.Downtime{Total: model.Length{Min: ms(10 * failed), Max: ms(10*failed + 5)}},
	}
	if failed > 0 {
		l.Verdict, l.Causes = model.Fail, []history.Cause{{Rule: "route-outlives-pod", Confidence: model.High, Failed: failed}}
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

func release(name ...string) func(*history.Line) {
	return func(l *history.Line) { l.Release.Templates = name }
}

func inconclusive(l *history.Line) { l.Verdict = model.Inconclusive }

// littleObserved is a run of which a gate failed, that saw little.
func littleObserved(l *history.Line) { l.Verdict, l.Coverage = model.Fail, 0.3 }

func aborted(l *history.Line) { l.Aborted, l.Verdict = true, model.Inconclusive }

func unmeasured(l *history.Line) {
	l.Verdict, l.Sent, l.Failed, l.Downtime, l.Coverage = model.Inconclusive, 0, 0, nil, 0
}

func runs(from int, failed ...int) (lines []history.Line) {
	for i, n := range failed {
		lines = append(lines, run(from+i, n))
	}
	return lines
}

func only(t *testing.T, lines ...history.Line) (*Trend, *Release) {
	t.Helper()
	trend := Of(lines)
	if len(trend.Pools) != 1 || len(trend.Pools[0].Releases) != 1 {
		t.Fatalf("%+v", trend.Pools)
	}
	return &trend, &trend.Pools[0].Releases[0]
}

func near(a, b float64) bool { return math.Abs(a-b) < 5e-5 }

// The bounds are those of tables of Clopper and Pearson's intervals at 95 %.
func TestHowManyRunsLoseRequestsIsBoundedFromTheFirstRunOn(t *testing.T) {
	for _, tt := range []struct {
		lossy, all int
		min, max   float64
	}{
		{0, 1, 0, 0.9750}, {1, 1, 0.0250, 1}, {0, 5, 0, 0.5218}, {5, 5, 0.4782, 1}, {1, 10, 0.0025, 0.4450}, {3, 10, 0.0667, 0.6525},
		{0, 10, 0, 0.3085}, {5, 10, 0.1871, 0.8129}, {10, 10, 0.6915, 1}, {0, 30, 0, 0.1157},
	} {
		var lines []history.Line
		for i := range tt.all {
			lines = append(lines, run(i, map[bool]int{true: 7}[i < tt.lossy]))
		}
		_, r := only(t, lines...)
		if s := r.Lossy; !near(s.Min, tt.min) || !near(s.Max, tt.max) || r.Runs.Lossy != tt.lossy || r.Runs.Lossless != tt.all-tt.lossy {
			t.Errorf("%d of %d: %+v, %+v", tt.lossy, tt.all, s, r.Runs)
		}
	}
}

func TestFailedRequestsAreCountedOverRuns(t *testing.T) {
	_, r := only(t, runs(0, 0, 3, 1000)...)
	if q := r.Requests; q.Failed != 1003 || q.Sent != 3000 || q.Share.Min < 0.31 || q.Share.Max > 0.36 {
		t.Errorf("%+v", q)
	}
	_, r = only(t, runs(0, 0)...)
	if q := r.Requests; q.Share.Min != 0 || !near(q.Share.Max, 0.0037) { // 1 - 0.025^(1/1000)
		t.Errorf("%+v", q)
	}
	_, r = only(t, runs(0, 1000)...)
	if q := r.Requests; !near(q.Share.Min, 0.9963) || q.Share.Max != 1 {
		t.Errorf("%+v", q)
	}
}

// What is inconclusive or aborted is no pass: as many as all of them may have lost requests.
func TestUnknownRunsWidenTheBounds(t *testing.T) {
	_, passed := only(t, runs(0, 0, 0, 0, 0, 0)...)
	for name, unknown := range map[string]func(*history.Line){"inconclusive": inconclusive, "little observed": littleObserved, "aborted": aborted, "unmeasured": unmeasured} {
		_, r := only(t, append(runs(0, 0, 0, 0, 0), run(9, 0, unknown))...)
		if r.Runs.Lossless != 4 || r.Runs.Unknown != 1 || r.Lossy.Min != 0 || r.Lossy.Max <= passed.Lossy.Max || !near(r.Lossy.Max, 0.7164) { // 1 of 5
			t.Errorf("%s: %+v, %+v", name, r.Runs, r.Lossy)
		}
	}
	_, r := only(t, run(1, 0, inconclusive), run(2, 4, inconclusive), run(3, 0, aborted), run(4, 0, unmeasured))
	if want := (Runs{All: 4, Lossy: 1, Unknown: 3, Inconclusive: 1, Aborted: 1, Unmeasured: 1}); r.Runs != want {
		t.Errorf("%+v, want %+v", r.Runs, want)
	}
}

// A run that saw little may have lost more requests than it saw fail.
func TestFailuresOfWhatWasHardlyObservedHaveNoUpperBound(t *testing.T) {
	whole, little := run(1, 4), run(2, 4, littleObserved)
	if got := failures([]*history.Line{&whole, &little}); got[0] != (bracket{4, 4}) || got[1] != (bracket{4, unbounded}) {
		t.Errorf("%+v", got)
	}
}

func TestNothingMeasuredIsNoZero(t *testing.T) {
	_, r := only(t, run(1, 0, unmeasured), run(2, 0, unmeasured))
	if r.Lossy != nil || r.Requests != nil || r.Downtime != nil || r.Runs.Unmeasured != 2 {
		t.Errorf("%+v", r)
	}
}

func TestTheMedianTakesSixRuns(t *testing.T) {
	trend, r := only(t, runs(0, 4, 0, 2, 9, 5)...)
	if r.Downtime.Median != nil || r.Downtime.Interval != nil || r.Downtime.Seen.Min != 0 || *r.Downtime.Seen.Max != 95*time.Millisecond || trend.Medians != (Enough{0, 1}) {
		t.Errorf("%+v", r.Downtime)
	}
	// A run that measured nothing is none of the six.
	if _, r := only(t, append(runs(0, 4, 0, 2, 9, 5), run(6, 0, unmeasured))...); r.Downtime.Median != nil {
		t.Errorf("%+v", r.Downtime)
	}
	trend, r = only(t, runs(0, 4, 0, 2, 9, 5, 5)...)
	d := r.Downtime
	if d.Median.Min != 45*time.Millisecond || *d.Median.Max != 50*time.Millisecond || d.Interval.Min != 0 || *d.Interval.Max != 95*time.Millisecond || trend.Medians != (Enough{1, 1}) {
		t.Errorf("%+v %+v", d.Median, d.Interval)
	}
}

// Of a run that was aborted, or whose window did not end, nobody knows how long it would have been down.
func TestAnOpenDowntimeHasNoUpperBound(t *testing.T) {
	open := func(l *history.Line) { l.Downtime.Open = true }
	_, r := only(t, run(1, 4, open))
	if r.Downtime.Seen.Max != nil || r.Downtime.Seen.Min != 40*time.Millisecond {
		t.Errorf("%+v", r.Downtime.Seen)
	}
	_, r = only(t, append(runs(0, 4, 0, 2, 9), run(5, 1, aborted), run(6, 1, open))...)
	if d := r.Downtime; d.Median.Max == nil || d.Interval.Max != nil {
		t.Errorf("%+v %+v", d.Median, d.Interval)
	}
	_, r = only(t, append(runs(0, 4, 0), run(5, 1, aborted), run(6, 1, open), run(7, 1, aborted), run(8, 1, open))...)
	if d := r.Downtime; d.Median.Max != nil || d.Median.Min != 10*time.Millisecond {
		t.Errorf("%+v %+v", d.Median, d.Interval)
	}
}

// Each half of all such runs is above the median with 1/2, so how many of n are above it is binomial: the interval must
// hold it with 95 % at least.
func TestTheIntervalHoldsTheMedian(t *testing.T) {
	for n := MedianRuns; n <= 200; n++ {
		var values []float64
		for i := range n {
			values = append(values, float64(i+1))
		}
		s := median(values)
		held := 0.0
		for below := int(s.Lo); below < int(s.Hi); below++ { // so many values are below the median
			all, _ := math.Lgamma(float64(n + 1))
			left, _ := math.Lgamma(float64(below + 1))
			right, _ := math.Lgamma(float64(n - below + 1))
			held += math.Exp(all - left - right - float64(n)*math.Ln2)
		}
		if held < 0.95 {
			t.Errorf("%d runs: [%v, %v] holds the median with %.4f", n, s.Lo, s.Hi, held)
		}
	}
}

// enumerated returns twice the share of all ways to choose the small ones among all values in which these are as small
// as small, or smaller: U counts in how many pairs a small one is the greater.
func enumerated(small, large []float64) float64 {
	all := append(append([]float64{}, small...), large...)
	u := func(chosen uint) (twice int) {
		for i, a := range all {
			for j, b := range all {
				if chosen>>i&1 == 1 && chosen>>j&1 == 0 {
					switch {
					case a > b:
						twice += 2
					case a == b:
						twice++
					}
				}
			}
		}
		return twice
	}
	seen, as, ways := u(1<<len(small)-1), 0, 0
	for chosen := range uint(1) << len(all) {
		n := 0
		for i := range all {
			n += int(chosen >> i & 1)
		}
		if n == len(small) {
			ways++
			if u(chosen) <= seen {
				as++
			}
		}
	}
	return min(1, 2*float64(as)/float64(ways))
}

func TestTheTestIsThatOfAllWaysToDealTheRuns(t *testing.T) {
	for _, tt := range [][2][]float64{
		{{1, 2, 3, 4}, {5, 6, 7, 8}}, {{1, 2, 3}, {4, 5, 6}}, {{0, 0, 0, 0}, {0, 0, 0, 5}}, {{0, 0, 0, 0}, {1, 0, 2, 3, 4}},
		{{0, 0, 0, 0, 0}, {0, 0, 3, 4}}, {{0, 1, 1, 2}, {1, 1, 1, 1, 3, 3}}, {{5, 6, 7, 8}, {1, 2, 3, 4}}, {{1, 3, 5, 7}, {2, 4, 6, 8}},
		{{0, 0, 1, 9, 9}, {0, 1, 1, 9}}, {{1, 1, 1, 1, 1}, {0, 1, 1, 0}}, {{1, unbounded, unbounded, 2}, {3, 4, unbounded, 5}},
	} {
		for _, side := range [][2][]float64{tt, {tt[1], tt[0]}} {
			if got, want := lessBy(side[0], side[1]), enumerated(side[0], side[1]); math.Abs(got-want) > 1e-9 {
				t.Errorf("%v less than %v: p = %v, want %v", side[0], side[1], got, want)
			}
		}
	}
	if p := lessBy([]float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}); p != 1 {
		t.Errorf("of equal runs p = %v", p)
	}
}

func TestComparingTakesFourRunsOfEach(t *testing.T) {
	for _, tt := range []struct {
		before, after int
		enough        bool
	}{{3, 4, false}, {4, 3, false}, {4, 4, true}, {1, 9, false}} {
		var lines []history.Line
		for i := range tt.before {
			lines = append(lines, run(i, 20+i))
		}
		for i := range tt.after {
			lines = append(lines, run(100+i, 0, release("bbbb")))
		}
		trend := Of(lines)
		c := trend.Pools[0].Comparisons
		if len(c) != 1 || c[0].Enough != tt.enough || (c[0].Failed != nil) != tt.enough || c[0].Runs != [2]int{tt.after, tt.before} || c[0].Before != "aaaa" || c[0].Release != "bbbb" {
			t.Fatalf("%+v: %+v", tt, c)
		}
		if tt.enough && (c[0].Failed.Direction != Less || c[0].Downtime.Direction != Less || !near(c[0].Failed.P, 2.0/70)) {
			t.Errorf("%+v %+v", c[0].Failed, c[0].Downtime)
		}
	}
}

func TestAReleaseIsWorseOnlyBeyondTheErrorBars(t *testing.T) {
	wide := func(l *history.Line) { l.Downtime.Total.Max = time.Second }
	compared := func(after ...history.Line) Comparison {
		for i := range after {
			after[i].Release.Templates = []string{"bbbb"}
		}
		return Of(append(runs(0, 0, 0, 0, 0), after...)).Pools[0].Comparisons[0]
	}
	c := compared(runs(10, 5, 6, 7, 8)...)
	if c.Failed.Direction != More || c.Downtime.Direction != More {
		t.Errorf("%+v %+v", c.Failed, c.Downtime)
	}
	// Their lower bounds are all longer, so it does not matter how wide they are.
	if c := compared(run(10, 5, wide), run(11, 6, wide), run(12, 7, wide), run(13, 8, wide)); c.Downtime.Direction != More {
		t.Errorf("%+v", c.Downtime)
	}
	// None failed, but in unobserved time as much may have.
	if c := compared(run(10, 0, wide), run(11, 0, wide), run(12, 0, wide), run(13, 0, wide)); c.Downtime.Direction != Unclear {
		t.Errorf("%+v", c.Downtime)
	}
	if c := compared(runs(10, 0, 0, 0, 0, 0)...); c.Failed.Direction != Unclear || c.Failed.P != 1 {
		t.Errorf("%+v", c.Failed)
	}
	// Runs that were aborted without a failure are not fewer failures.
	c = Of(append(runs(0, 5, 6, 7, 8), run(10, 0, aborted, release("b")), run(11, 0, aborted, release("b")), run(12, 0, aborted, release("b")), run(13, 0, aborted, release("b")))).Pools[0].Comparisons[0]
	if c.Failed.Direction != Unclear || c.Downtime.Direction != Unclear {
		t.Errorf("%+v %+v", c.Failed, c.Downtime)
	}
}

func TestOnlyRunsOfOneSortArePooled(t *testing.T) {
	for name, unlike := range map[string]func(*history.Line){
		"proxy mode":            func(l *history.Line) { l.ProxyMode = "nftables" },
		"an unknown mode":       func(l *history.Line) { l.ProxyMode = "" },
		"Kubernetes minor":      func(l *history.Line) { l.Kubernetes = "v1.37.0" },
		"rate":                  func(l *history.Line) { l.Load[0].Rate = 200 },
		"number of targets":     func(l *history.Line) { l.Load[0].Targets = 3 },
		"kind of requests":      func(l *history.Line) { l.Load = append(l.Load, history.Load{Kind: "reused", Rate: 100}) },
		"disruption":            func(l *history.Line) { l.Triggers[0].Kind = model.RolledOut },
		"Service":               func(l *history.Line) { l.Service = "shop/api" },
		"a run without Service": func(l *history.Line) { l.Service, l.URLs, l.Kubernetes = "", []string{"http://127.0.0.1/"}, "" },
	} {
		other := run(1, 0, unlike)
		if trend := Of([]history.Line{run(0, 0), other}); len(trend.Pools) != 2 || trend.Runs != 2 {
			t.Errorf("%s: %+v", name, trend.Pools)
		}
	}
	for name, like := range map[string]func(*history.Line){
		"patch version":       func(l *history.Line) { l.Kubernetes = "v1.36.9-gke.100" },
		"node":                func(l *history.Line) { l.Triggers[0].Object, l.Sources = "Node/other", []string{"node7"} },
		"a Pod that crashed":  func(l *history.Line) { l.Triggers = append(l.Triggers, history.Trigger{Kind: model.PodExited}) },
		"two nodes":           func(l *history.Line) { l.Triggers = append(l.Triggers, l.Triggers[0]) },
		"a release before it": release("older", "aaaa"),
	} {
		if trend := Of([]history.Line{run(0, 0), run(1, 0, like)}); len(trend.Pools) != 1 || len(trend.Pools[0].Releases) != 1 {
			t.Errorf("%s: %+v", name, trend.Pools)
		}
	}
}

func TestOfTwoLinesOfARunTheLaterCounts(t *testing.T) {
	_, r := only(t, run(1, 7), run(2, 0), run(1, 0))
	if r.Runs.All != 2 || r.Runs.Lossy != 0 {
		t.Errorf("%+v", r.Runs)
	}
}

// A release that serves again, after a rollback, is newer than the one that was rolled back.
func TestReleasesStandByWhenEachBeganToServeLast(t *testing.T) {
	for served, want := range map[string]string{
		"a b c":     "a b c",
		"a a b":     "a b",
		"a b a":     "b a",
		"a b a a":   "b a",
		"a b a c":   "b a c",
		"a b c b a": "c b a",
	} {
		var lines []history.Line
		for i, name := range strings.Fields(served) {
			lines = slices.Insert(lines, 0, run(i, 0, release(name)))
		}
		p := Of(lines).Pools[0]
		var names []string
		for i, r := range p.Releases {
			if names = append(names, r.Name); i > 0 && p.Comparisons[i-1].Before != names[i-1] {
				t.Errorf("%s: %s is compared with %s", served, r.Name, p.Comparisons[i-1].Before)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", served, got, want)
		}
	}
}

func TestNoLinesAreNoTrend(t *testing.T) {
	if trend := Of(nil); trend.Runs != 0 || len(trend.Pools) != 0 {
		t.Errorf("%+v", trend)
	}
}
