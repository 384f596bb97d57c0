package selftest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/truth"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

const (
	µs   = time.Microsecond
	ms   = time.Millisecond
	rate = 200
)

// perfect is a trial in which one target saw two outages as well as can be: one of every request from 1 s to 1.1 s,
// and one of every second from 3 s to 3.5 s. The server knows the edges of the first to 100 µs. A request is sent
// every 5 ms, from 3 ms on.
func perfect() Trial {
	plan := Plan{
		{Class: Refused, Kind: faultserver.Refuse, From: time.Second, To: 1100 * ms},
		{Class: Random, Kind: faultserver.Error, From: 3 * time.Second, To: 3500 * ms, Share: 0.5},
	}
	outages := Outages(plan, []faultserver.Outage{{
		Close: faultserver.Span{From: time.Second, To: time.Second + 100*time.Microsecond},
		Open:  faultserver.Span{From: 1100 * ms, To: 1100*ms + 100*time.Microsecond},
	}})
	requests, acts, good := requestsOf(outages)
	ledger := NewLedger(HTTP, outages, acts, good)
	ledger.Count(timeline.Target{ID: 1, Kind: timeline.New})
	for _, q := range requests {
		ledger.Add(q)
	}
	tl := seen(good)
	return Trial{Protocol: HTTP, Seed: 1, Rate: rate, Duration: 5 * time.Second, Plan: plan, Outages: outages, Ledger: ledger, Run: tl}
}

// requestsOf are those that met a refusal and then a share of one half, and what the server knows of them.
func requestsOf(outages []Outage) (requests []timeline.Request, acts []faultserver.Act, good int) {
	for at := 3 * ms; at < 5*time.Second; at += 5 * ms {
		class := timeline.OK
		switch {
		case outages[0].Touches(at, at):
			class = timeline.Refused
		case outages[1].Touches(at, at) && (at-3*ms)%(10*ms) == 0:
			class = timeline.HTTP5xx
			acts = append(acts, faultserver.Act{Kind: faultserver.Error, At: at})
		default:
			good++
		}
		requests = append(requests, request(at, class))
	}
	return requests, acts, good
}

// seen is what the run says. Of the share, ten good answers prove the health before and after: every second one of
// those inside, and all of those outside.
func seen(good int) *model.Timeline {
	bracket := func(from, to time.Duration) model.Instant {
		return model.Instant{Earliest: from, Latest: to + 500*time.Microsecond}
	}
	window := func(id int, w model.Window) model.Window {
		w.ID, w.Target = id, "new"
		w.Length = model.Length{Min: w.End.Earliest - w.Start.Latest, Max: w.End.Latest - w.Start.Earliest}
		return w
	}
	total := window(1, model.Window{
		Kind: model.Outage, Basis: model.Exact, Start: bracket(998*ms, 1003*ms), End: bracket(1098*ms, 1103*ms), Failed: 20, Sent: 20,
	})
	total.Downtime, total.Blackout = total.Length, new(total.Length)
	share := window(2, model.Window{
		Kind: model.Partial, Basis: model.Statistical, Start: bracket(2953*ms, 3003*ms), End: bracket(3493*ms, 3543*ms), Failed: 50, Sent: 99,
	})
	share.Downtime = model.Length{Min: 180 * ms, Max: 380 * ms}
	const all = 1000 // requests
	return &model.Timeline{
		Targets: []model.Target{{
			Target: timeline.Target{
				ID: 1, Name: "new", Kind: timeline.New, Rate: rate,
			}, Resolution: 5 * ms, Coverage: 1,
			Measured: model.Instant{Earliest: 3 * ms, Latest: 5 * time.Second}, Sent: all, OK: good, Failed: all - good,
			Latency: &model.Latency{P50: 500 * µs, P90: 500 * µs, P99: 500 * µs, P999: 500 * µs, Max: 500 * µs},
		}},
		Windows: []model.Window{total, share},
		Verdict: model.Verdict{Coverage: 1, Failed: all - good},
	}
}

// request takes 500 µs.
func request(sent time.Duration, class timeline.Class) timeline.Request {
	code := map[timeline.Class]uint16{timeline.OK: 200, timeline.HTTP5xx: 503}[class]
	return timeline.Request{Target: 1, Due: sent, Sent: sent, Done: sent + 500*µs, Outcome: timeline.Outcome{Class: class, Code: code}}
}

// names are those of the promises, in the order of Judge.
var names = []string{"found", "invented", "exact", "statistical", "bracketed", "counts", "stalled", "unobserved"}

// outcomes lists the promises that were not kept, with their marks; "kept" if all were.
func outcomes(r *Report) string {
	var list []string
	for i, p := range r.Promises {
		if p.Outcome != Kept {
			list = append(list, marks[p.Outcome]+" "+names[i])
		}
	}
	return cmp.Or(strings.Join(list, ", "), "kept")
}

type judged struct {
	name     string
	change   func(*Trial)
	outcomes string
	code     int
}

func judgeAll(t *testing.T, tests []judged) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trial := perfect()
			test.change(&trial)
			r := Judge(trial)
			if got := outcomes(r); got != test.outcomes || r.ExitCode != test.code {
				t.Errorf("%s, exit code %d; want %s and %d", got, r.ExitCode, test.outcomes, test.code)
				for _, p := range r.Promises {
					t.Logf("%s %s: %s", marks[p.Outcome], p.Text, p.Found)
				}
				t.Logf("%+v", r.Wrong)
			}
		})
	}
}

func TestJudgePassesWhatIsTrueAndNothingElse(t *testing.T) {
	judgeAll(t, []judged{
		{"all is well", func(*Trial) {}, "kept", 0},
		{"the truth of an outage came a bracket's width sooner", func(tr *Trial) { shift(&tr.Outages[0], -6*ms) }, "x exact", 3},
		{"or later", func(tr *Trial) { shift(&tr.Outages[0], 6*ms) }, "x exact", 3},
		{"the truth of a share came a bracket's width sooner", func(tr *Trial) { shift(&tr.Outages[1], -160*ms) }, "x statistical", 3},
		{"an outage has no window", func(tr *Trial) { unsee(tr) }, "x found, ? exact", 3},
		{"no request met it", func(tr *Trial) { unsee(tr); unsend(tr, 105*ms) }, "? found, ? exact", 4},
		{"a failure of another kind", func(tr *Trial) { add(tr, request(1050*ms, timeline.HTTP5xx)) }, "x counts", 3},
		{"a good answer while nobody listened", func(tr *Trial) {
			add(tr, request(1050*ms, timeline.OK))
			tr.Ledger.Answered++
		}, "x counts", 3},
		{"one failure too many", func(tr *Trial) { add(tr, request(3200*ms, timeline.HTTP5xx)) }, "x counts", 3},
		{"one too few", func(tr *Trial) { tr.Ledger.Accounts[1].Failed-- }, "x counts", 3},
		{"an answer that the server did not give", func(tr *Trial) { add(tr, request(2*time.Second, timeline.OK)) }, "x counts", 3},
		{"too little was observed to pass", func(tr *Trial) { tr.Run.Verdict.Coverage = 0.998 }, "kept", 4},
		{"or to fail", func(tr *Trial) { tr.Run.Verdict.Coverage = 0.998; invent(tr, 2*time.Second) }, "x invented", 4},
		{"a window of nothing", func(tr *Trial) { invent(tr, 2*time.Second) }, "x invented", 3},
		{"where nobody looked", func(tr *Trial) { invent(tr, 2*time.Second); dim(tr, 1999*ms, 2001*ms) }, "kept", 0},
		{"nothing was to be seen", func(tr *Trial) {
			tr.Outages, tr.Plan, tr.Run.Windows = nil, nil, nil
			tr.Ledger.Accounts, tr.Run.Targets[0].Failed, tr.Run.Verdict.Failed = nil, 0, 0
		}, "? found, ? exact, ? statistical, ? bracketed, ? counts", 4},
	})
}

func TestJudgeLeavesUnobservedTimeAlone(t *testing.T) {
	judgeAll(t, []judged{
		{"an outage nobody saw", func(tr *Trial) { unsee(tr); unsend(tr, 105*ms); dim(tr, 1050*ms, 1054*ms) }, "? exact", 4},
		{"one shorter than two intervals", func(tr *Trial) {
			unsee(tr)
			unsend(tr, 105*ms)
			tr.Outages[0].End = truth.Span{From: 1009 * ms, To: 1010 * ms}
		}, "? exact", 4},
		{"an edge beside it", func(tr *Trial) {
			dim(tr, 997*ms, 998*ms)
			tr.Run.Windows[0].Open.Start = true
		}, "kept", 0},
	})
}

func TestJudgeWantsABracketAtEveryEdge(t *testing.T) {
	judgeAll(t, []judged{
		{"none where an outage began", func(tr *Trial) { tr.Run.Windows[0].Open.Start = true }, "x bracketed", 3},
		{"none where a share ended", func(tr *Trial) { tr.Run.Windows[1].Open.End = true }, "x bracketed", 3},
		{"none at all", func(tr *Trial) {
			for i := range tr.Run.Windows {
				tr.Run.Windows[i].Open = model.Open{Start: true, End: true}
			}
		}, "? exact, ? statistical, x bracketed", 3},
	})
}

func TestJudgeWantsAStoppedProberToSaySo(t *testing.T) {
	judgeAll(t, []judged{
		{"it does", func(tr *Trial) { tr.Stalled = stalledRun(4) }, "kept", 0},
		{"it passes", func(tr *Trial) { tr.Stalled = stalledRun(0) }, "x stalled", 3},
		{"whatever was observed otherwise", func(tr *Trial) { tr.Run.Verdict.Coverage = 0.5; tr.Stalled = stalledRun(0) }, "x stalled", 3},
		{"it blames the server", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Windows = tr.Run.Windows[:1]
		}, "x stalled", 3},
		{"it blames the server, which stood still", func(tr *Trial) {
			tr.Stalled = stalledRun(3)
			tr.Stalled.Run.Windows = slices.Clone(tr.Run.Windows[:1])
			tr.Stalled.Run.Windows[0].Classes = map[string]int{timeline.TimeoutResponse.String(): 20}
			tr.Stalled.Standstills = []truth.Span{{From: 0, To: 5 * time.Second}}
		}, "? stalled", 4},
		{"it blames the server for a refusal, and that stood still", func(tr *Trial) {
			tr.Stalled = stalledRun(3)
			tr.Stalled.Run.Windows = slices.Clone(tr.Run.Windows[:1])
			tr.Stalled.Run.Windows[0].Classes = map[string]int{timeline.Refused.String(): 20}
			tr.Stalled.Standstills = []truth.Span{{From: 0, To: 5 * time.Second}}
		}, "x stalled", 3},
		{"it blames the server, which stood still long after", func(tr *Trial) {
			tr.Stalled = stalledRun(3)
			tr.Stalled.Run.Windows = slices.Clone(tr.Run.Windows[:1])
			tr.Stalled.Run.Windows[0].Classes = map[string]int{timeline.TimeoutResponse.String(): 20}
			tr.Stalled.Standstills = []truth.Span{{From: 20 * time.Second, To: 21 * time.Second}}
		}, "x stalled", 3},
		{"it blames the server for late answers", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Windows = []model.Window{slowWindow(tr.Stalled.To - ms)}
		}, "x stalled", 3},
		{"answers are late after the stop", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Windows = []model.Window{slowWindow(tr.Stalled.To + ms)}
		}, "kept", 0},
		{"answers were late before the stop", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Windows = []model.Window{slowWindow(tr.Stalled.From - SlowBar - 100*ms)}
		}, "kept", 0},
		{"its coverage takes in half of the stop", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Targets[0].Coverage += 0.15
		}, "x unobserved", 3},
		{"it claims to have observed a tenth of the stop", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Unobserved[0].Start = 600 * ms
			tr.Stalled.Run.Targets[0].Coverage += 100 * ms.Seconds() / 3.4
		}, "x unobserved", 3},
		{"that is wrong however little else was observed", func(tr *Trial) {
			tr.Run.Verdict.Coverage = 0.5
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Unobserved = nil
		}, "x unobserved", 3},
		{"it was stopped when it had measured all", func(tr *Trial) {
			tr.Stalled = stalledRun(0)
			tr.Stalled.From, tr.Stalled.To = 3*time.Second, 4*time.Second
		}, "? stalled, ? unobserved", 4},
		{"it measured nothing", func(tr *Trial) {
			tr.Stalled = stalledRun(4)
			tr.Stalled.Run.Targets = nil
		}, "? unobserved", 4},
	})
}

// slowWindow returns a window of answers that were late, to requests of which the first was sent at an instant.
func slowWindow(first time.Duration) model.Window {
	known := first + SlowBar + ms
	return model.Window{Target: "new", Kind: model.Slow, Start: model.Instant{Earliest: first - 5*ms, Latest: known},
		End: model.Instant{Earliest: known + 50*ms, Latest: known + 55*ms}}
}

func shift(o *Outage, by time.Duration) {
	for _, at := range []*time.Duration{&o.Start.From, &o.Start.To, &o.End.From, &o.End.To} {
		*at += by
	}
}

// invent adds a window of nothing.
func invent(tr *Trial, at time.Duration) {
	w := tr.Run.Windows[0]
	w.ID, w.Failed = 3, 0
	w.Start = model.Instant{Earliest: at - 5*ms, Latest: at + ms}
	w.End = model.Instant{Earliest: at, Latest: at + 6*ms}
	tr.Run.Windows = append(tr.Run.Windows, w)
}

// unsee takes away the window of the first outage.
func unsee(tr *Trial) { tr.Run.Windows = tr.Run.Windows[1:] }

// unsend takes away the 20 requests that met it, which leaves nothing sent for so long.
func unsend(tr *Trial, silence time.Duration) {
	tr.Ledger.Accounts[0].Failed = 0
	clear(tr.Ledger.inside[0])
	target := &tr.Run.Targets[0]
	target.Sent, target.Failed, target.Resolution = target.Sent-20, target.Failed-20, silence
	tr.Run.Verdict.Failed -= 20
}

// add enters a request that the run knows of as well.
func add(tr *Trial, q timeline.Request) {
	tr.Ledger.Add(q)
	target := &tr.Run.Targets[0]
	target.Sent++
	if q.Class == timeline.OK {
		target.OK++
		return
	}
	target.Failed++
	tr.Run.Verdict.Failed++
	tr.Run.Windows[0].Failed++
}

// dim makes some time unobserved.
func dim(tr *Trial, from, to time.Duration) {
	tr.Run.Unobserved = append(tr.Run.Unobserved, model.Unobserved{Target: "new", Start: from, End: to})
	tr.Run.Verdict.Coverage -= (to - from).Seconds() / 5
}

// stalledRun is a run that was stopped from 0.5 s to 1.5 s.
func stalledRun(code int) *StalledProber {
	tl := &model.Timeline{
		Targets:    []model.Target{{Target: timeline.Target{Name: "new", Kind: timeline.New}, Measured: model.Instant{Latest: 3400 * ms}, Coverage: 1 - 1.02/3.4}},
		Unobserved: []model.Unobserved{{Target: "new", Start: 490 * ms, End: 1510 * ms}},
	}
	tl.Verdict.Coverage = tl.Targets[0].Coverage
	return &StalledProber{From: 500 * ms, To: 1500 * ms, ExitCode: code, Run: tl}
}

func TestLedgerWantsGoodAnswersToBePossible(t *testing.T) {
	outages := Outages(Plan{
		{Class: Stalled, Kind: faultserver.Stall, From: time.Second, To: 2 * time.Second},
		{Class: Slow, Kind: faultserver.Slow, From: 4 * time.Second, To: 4100 * ms},
	}, nil)
	held := func(kind faultserver.Kind, at, sent, done time.Duration, code uint16) *Ledger {
		b := NewLedger(HTTP, outages, []faultserver.Act{{Kind: kind, At: at}}, 1)
		b.Count(timeline.Target{ID: 1, Kind: timeline.New})
		b.Add(timeline.Request{Target: 1, Sent: sent, Done: done, Outcome: timeline.Outcome{Class: timeline.OK, Code: code}})
		return b
	}
	for _, test := range []struct {
		name   string
		ledger *Ledger
		outage int
		agree  bool
	}{
		{"a stall lets go", held(faultserver.Stall, 1500*ms, 1500*ms, 2001*ms, 200), 0, true},
		{"answered while it lasted", held(faultserver.Stall, 1500*ms, 1500*ms, 1900*ms, 200), 0, false},
		{"late and answered all the same", held(faultserver.Stall, 1100*ms, 1100*ms, 1900*ms, 200), 0, false},
		{"held back", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 200), 1, true},
		{"not for as long", held(faultserver.Slow, 4050*ms, 4050*ms, 4600*ms, 200), 1, false},
		{"without a status", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 0), 1, false},
		{"a redirect", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 302), 1, false},
	} {
		if got := test.ledger.Accounts[test.outage].Agrees(outages[test.outage].Class) && test.ledger.Balanced(); got != test.agree {
			t.Errorf("%s: agrees %v", test.name, got)
		}
	}
}

// One miss in 20 says nothing against 99 %, three do; and in 200 there may be two.
func TestStatisticalBracketsNeedEnoughOfThem(t *testing.T) {
	for _, test := range []struct {
		held Held
		want Outcome
	}{
		{Held{0, 0}, Undecided}, {Held{20, 20}, Kept}, {Held{19, 20}, Undecided}, {Held{17, 20}, Broken}, {Held{3, 4}, Broken},
		{Held{198, 200}, Kept}, {Held{197, 200}, Undecided}, {Held{190, 200}, Broken},
	} {
		if p := heldStatistical(test.held); p.Outcome != test.want {
			t.Errorf("%v: %s (%s), want %s", test.held, p.Outcome, p.Found, test.want)
		}
	}
}

func TestTableFitsAndAnswersInWords(t *testing.T) {
	var b strings.Builder
	trial := perfect()
	trial.Stalled = stalledRun(4)
	if err := Judge(trial).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 110 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"PASS ", "--seed 1 --rate 200 --duration 5s", "HOW WRONG CAN A NUMBER BE", "the shortest of 99.9 ms", "1/1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	t.Log("\n" + b.String())
}
