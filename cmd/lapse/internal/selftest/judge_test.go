package selftest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

const (
	µs   = time.Microsecond
	ms   = time.Millisecond
	rate = 200
)

// perfect is a trial in which one target saw two outages as well as can be: one of every request from 1 s to 1.1 s, and one
// of every second from 3 s to 3.5 s. The server knows the edges of the first to 100 µs. A request is sent every 5 ms, from 3 ms on.
func perfect() Trial {
	plan := Plan{
		{Class: Refused, Kind: faultserver.Refuse, From: time.Second, To: 1100 * ms},
		{Class: Random, Kind: faultserver.Error, From: 3 * time.Second, To: 3500 * ms, Share: 0.5},
	}
	truths := Truths(plan, []faultserver.Outage{{
		Close: faultserver.Span{From: time.Second, To: time.Second + 100*time.Microsecond},
		Open:  faultserver.Span{From: 1100 * ms, To: 1100*ms + 100*time.Microsecond},
	}})
	requests, acts, good := requestsOf(truths)
	books := NewBooks(truths, acts, good)
	books.Count(timeline.Target{ID: 1, Kind: timeline.New})
	for _, q := range requests {
		books.Add(q)
	}
	tl := seen(good)
	return Trial{Seed: 1, Rate: rate, Duration: 5 * time.Second, Plan: plan, Truths: truths, Books: books, Live: tl, Wide: tl, Again: true}
}

// requestsOf are those that met a refusal and then a share of one half, and what the server knows of them.
func requestsOf(truths []Truth) (requests []timeline.Request, acts []faultserver.Act, good int) {
	for at := 3 * ms; at < 5*time.Second; at += 5 * ms {
		class := timeline.OK
		switch {
		case truths[0].touches(at, at):
			class = timeline.Refused
		case truths[1].touches(at, at) && (at-3*ms)%(10*ms) == 0:
			class = timeline.HTTP5xx
			acts = append(acts, faultserver.Act{Kind: faultserver.Error, At: at})
		default:
			good++
		}
		requests = append(requests, request(at, class))
	}
	return requests, acts, good
}

// seen is what the run says. Of the share, ten good answers prove the health before and after: every second one of those inside,
// and all of those outside.
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
			ID: 1, Name: "new", Kind: timeline.New, Rate: rate, Resolution: 5 * ms, Coverage: 1,
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
var names = []string{
	"found", "invented", "exact", "statistical", "bracketed", "narrow", "kinds", "lengths", "counts", "figures", "limits", "again", "joined",
	"starved", "unobserved",
}

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
		{"the truth of an outage came a bracket's width sooner", func(tr *Trial) { shift(&tr.Truths[0], -6*ms) }, "x exact, x joined", 3},
		{"or later", func(tr *Trial) { shift(&tr.Truths[0], 6*ms) }, "x exact, x joined", 3},
		{"the truth of a share came a bracket's width sooner", func(tr *Trial) { shift(&tr.Truths[1], -160*ms) }, "x statistical, x joined", 3},
		{"an outage has no window", func(tr *Trial) { unsee(tr) }, "x found, ? exact, ? kinds, x figures, x limits", 3},
		{"no request met it", func(tr *Trial) { unsee(tr); unsend(tr, 105*ms) }, "? found, ? exact, ? kinds", 4},
		{"a failure of another kind", func(tr *Trial) { add(tr, request(1050*ms, timeline.HTTP5xx)) }, "? kinds, x counts", 3},
		{"a good answer while nobody listened", func(tr *Trial) {
			add(tr, request(1050*ms, timeline.OK))
			tr.Books.Answered++
		}, "x counts", 3},
		{"one failure too many", func(tr *Trial) { add(tr, request(3200*ms, timeline.HTTP5xx)) }, "x counts", 3},
		{"one too few", func(tr *Trial) { tr.Books.Accounts[1].Failed-- }, "x counts", 3},
		{"an answer that the server did not give", func(tr *Trial) { add(tr, request(2*time.Second, timeline.OK)) }, "x counts", 3},
		{"the recording says something else", func(tr *Trial) { tr.Again = false }, "x again", 3},
		{"too little was observed to pass", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.998 }, "kept", 4},
		{"or to fail", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.998; invent(tr, 2*time.Second) }, "x invented, x joined", 4},
		{"a window of nothing", func(tr *Trial) { invent(tr, 2*time.Second) }, "x invented, x joined", 3},
		{"where nobody looked", func(tr *Trial) { invent(tr, 2*time.Second); dim(tr, 1999*ms, 2001*ms) }, "kept", 0},
		{"nothing was to be seen", func(tr *Trial) {
			tr.Truths, tr.Plan, tr.Live.Windows = nil, nil, nil
			tr.Books.Accounts, tr.Live.Targets[0].Failed, tr.Live.Verdict.Failed = nil, 0, 0
			tr.Books.flights[1] = slices.DeleteFunc(tr.Books.flights[1], func(f flight) bool { return f.class != timeline.OK })
			tr.Live.Targets[0].Sent, tr.Live.Targets[0].Resolution = tr.Live.Targets[0].OK, 105*ms
		}, "? found, ? exact, ? statistical, ? bracketed, ? narrow, ? kinds, ? lengths, ? counts, ? joined", 4},
	})
}

func TestJudgeLeavesUnobservedTimeAlone(t *testing.T) {
	judgeAll(t, []judged{
		{"an outage nobody saw", func(tr *Trial) { unsee(tr); unsend(tr, 105*ms); dim(tr, 1050*ms, 1054*ms) }, "? exact, ? kinds", 4},
		{"one shorter than two intervals", func(tr *Trial) {
			unsee(tr)
			unsend(tr, 105*ms)
			tr.Truths[0].End = faultserver.Span{From: 1009 * ms, To: 1010 * ms}
		}, "? exact, ? kinds", 4},
		{"an edge beside it", func(tr *Trial) {
			dim(tr, 997*ms, 998*ms)
			tr.Live.Windows[0].Open.Start = true
		}, "? kinds", 4},
	})
}

func TestJudgeWantsABracketAtEveryEdge(t *testing.T) {
	judgeAll(t, []judged{
		{"none where an outage began", func(tr *Trial) { tr.Live.Windows[0].Open.Start = true }, "x bracketed", 3},
		{"none where a share ended", func(tr *Trial) { tr.Live.Windows[1].Open.End = true }, "x bracketed", 3},
		{"none at all", func(tr *Trial) {
			for i := range tr.Live.Windows {
				tr.Live.Windows[i].Open = model.Open{Start: true, End: true}
			}
		}, "? exact, ? statistical, x bracketed, ? narrow, ? lengths, ? joined", 3},
	})
}

func TestJudgeWantsBracketsNoWiderThanTheRequestsMakeThem(t *testing.T) {
	edge := func(window int, side string, by time.Duration) func(*Trial) {
		return func(tr *Trial) {
			w := &tr.Live.Windows[window]
			switch side {
			case "before":
				w.Start.Earliest -= by
			case "after":
				w.End.Latest += by
			case "within":
				w.Start.Latest += by
				w.End.Earliest -= by
			}
		}
	}
	judgeAll(t, []judged{
		{"an outage from one good answer more", edge(0, "before", 5*ms), "x narrow", 3},
		{"to one more", edge(0, "after", 5*ms), "x narrow", 3},
		{"known by the second failure only", edge(0, "within", 5*ms), "x narrow", 3},
		{"a share that three times as many prove", edge(1, "before", 100*ms), "kept", 0},
		{"or twenty times", edge(1, "before", time.Second), "x narrow", 3},
		{"a share to the end of the run", edge(1, "after", time.Second), "x narrow", 3},
		// Of a statement that is not exact, 38 good answers are enough; that it is not exact is wrong by itself.
		{"an outage that does not say it is exact", func(tr *Trial) {
			tr.Live.Windows[0].Basis = model.Statistical
			edge(0, "before", 150*ms)(tr)
		}, "? exact, x kinds", 3},
		{"and is twenty times as wide", func(tr *Trial) {
			tr.Live.Windows[0].Basis = model.Statistical
			edge(0, "before", 250*ms)(tr)
		}, "? exact, x narrow, x kinds", 3},
	})
}

func TestJudgeWantsOutagesCalledWhatTheyAre(t *testing.T) {
	call := func(window int, kind model.WindowKind, basis model.Basis) func(*Trial) {
		return func(tr *Trial) { tr.Live.Windows[window].Kind, tr.Live.Windows[window].Basis = kind, basis }
	}
	judgeAll(t, []judged{
		{"a share of all", call(0, model.Partial, model.Exact), "x kinds", 3},
		{"not exact", call(0, model.Outage, model.Statistical), "? exact, x kinds", 3},
		{"all of a share", call(1, model.Outage, model.Statistical), "x kinds", 3},
		{"a share, exactly", call(1, model.Partial, model.Exact), "? statistical, x kinds", 3},
		{"one outage in two windows", func(tr *Trial) {
			w := tr.Live.Windows[0]
			tr.Live.Windows[0].End = model.Instant{Earliest: 1043 * ms, Latest: 1048 * ms}
			w.ID, w.Failed = 3, 0
			w.Start = model.Instant{Earliest: 1043 * ms, Latest: 1048 * ms}
			tr.Live.Windows = append(tr.Live.Windows, w)
		}, "x kinds", 3},
		{"an outage with a good answer to a request from within", func(tr *Trial) {
			i := slices.IndexFunc(tr.Books.flights[1], func(f flight) bool { return f.sent == 1093*ms })
			f := &tr.Books.flights[1][i]
			f.class, f.done = timeline.OK, 1101*ms
			target := &tr.Live.Targets[0]
			target.OK, target.Failed, target.Latency.Max = target.OK+1, target.Failed-1, 8*ms
			tr.Live.Verdict.Failed, tr.Live.Windows[0].Failed = target.Failed, 19
			tr.Live.Windows[0].Kind, tr.Live.Windows[0].Basis = model.Partial, model.Statistical
		}, "? exact, ? kinds", 4},
		// What answers take as long as a third of an outage, that outage can have been a share.
		{"an outage no longer than answers take", func(tr *Trial) {
			tr.Books.flights[1][0].done += 40 * ms
			tr.Live.Targets[0].Latency.Max += 40 * ms
			tr.Live.Windows[0].Kind = model.Partial
		}, "? kinds", 4},
	})
}

func TestJudgeWantsLengthAndDowntimeToHoldTheTruth(t *testing.T) {
	down := func(window int, by float64) func(*Trial) {
		return func(tr *Trial) {
			d := &tr.Live.Windows[window].Downtime
			*d = model.Length{Min: scale(d.Min, by), Max: scale(d.Max, by)}
		}
	}
	judgeAll(t, []judged{
		{"half the downtime of an outage", down(0, 0.5), "x lengths", 3},
		{"of a share", down(1, 0.5), "x lengths", 3},
		{"twice it", down(1, 2), "x lengths", 3},
		{"half the blackout", func(tr *Trial) { tr.Live.Windows[0].Blackout.Max /= 2 }, "x lengths", 3},
		{"half the length", func(tr *Trial) {
			l := &tr.Live.Windows[0].Length
			*l = model.Length{Min: l.Min / 2, Max: l.Max / 2}
		}, "x lengths", 3},
	})
}

func TestJudgeWantsFiguresThatFollowFromTheRecording(t *testing.T) {
	judgeAll(t, []judged{
		{"half the latency", func(tr *Trial) { tr.Live.Targets[0].Latency.P99 /= 2 }, "x figures", 3},
		{"twice the latency", func(tr *Trial) { tr.Live.Targets[0].Latency.Max *= 2 }, "x figures", 3},
		{"no latency", func(tr *Trial) { tr.Live.Targets[0].Latency = nil }, "x figures", 3},
		{"a failure is in no window", func(tr *Trial) { tr.Live.Windows[0].Failed-- }, "x figures", 3},
		{"or in no total", func(tr *Trial) { tr.Live.Verdict.Failed-- }, "x figures", 3},
		{"a request is in none", func(tr *Trial) { tr.Live.Targets[0].Sent-- }, "x figures", 3},
		{"unobserved time counts as observed", func(tr *Trial) { dim(tr, 2001*ms, 2003*ms); tr.Live.Targets[0].Coverage = 1 }, "x figures", 3},
		{"the run covers more than its target", func(tr *Trial) { dim(tr, 2001*ms, 2003*ms); tr.Live.Verdict.Coverage = 1 }, "x figures", 3},
		{"there is no target", func(tr *Trial) { tr.Live.Targets = nil; tr.Live.Windows = nil },
			"? found, ? invented, ? exact, ? statistical, ? bracketed, ? narrow, ? kinds, ? lengths, x figures, ? limits, ? joined", 3},
	})
}

func TestJudgeWantsTheDetectionLimitToBeTheLongestSilence(t *testing.T) {
	judgeAll(t, []judged{
		{"it is less", func(tr *Trial) { tr.Live.Targets[0].Resolution = 4 * ms }, "x limits", 3},
		{"or more", func(tr *Trial) { tr.Live.Targets[0].Resolution = 6 * ms }, "x limits", 3},
		{"a longer outage escaped", func(tr *Trial) {
			unsee(tr)
			unsend(tr, 105*ms)
			tr.Truths[0].End = faultserver.Span{From: 1110 * ms, To: 1110 * ms}
		}, "? found, ? exact, ? kinds, x limits", 3},
	})
}

func TestJudgeWantsAStoppedProberToSaySo(t *testing.T) {
	judgeAll(t, []judged{
		{"it does", func(tr *Trial) { tr.Starved = starved(4) }, "kept", 0},
		{"it passes", func(tr *Trial) { tr.Starved = starved(0) }, "x starved", 3},
		{"whatever was observed otherwise", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.5; tr.Starved = starved(0) }, "x starved", 3},
		{"it blames the server", func(tr *Trial) {
			tr.Starved = starved(4)
			tr.Starved.Run.Windows = tr.Live.Windows[:1]
		}, "x starved", 3},
		{"its coverage takes in half of the stop", func(tr *Trial) {
			tr.Starved = starved(4)
			tr.Starved.Run.Targets[0].Coverage += 0.15
		}, "x unobserved", 3},
		{"it claims to have observed a tenth of the stop", func(tr *Trial) {
			tr.Starved = starved(4)
			tr.Starved.Run.Unobserved[0].Start = 600 * ms
			tr.Starved.Run.Targets[0].Coverage = observed(tr.Starved.Run.Targets[0], tr.Starved.Run)
		}, "x unobserved", 3},
		{"that is wrong however little else was observed", func(tr *Trial) {
			tr.Live.Verdict.Coverage = 0.5
			tr.Starved = starved(4)
			tr.Starved.Run.Unobserved = nil
		}, "x unobserved", 3},
		{"it measured nothing", func(tr *Trial) {
			tr.Starved = starved(4)
			tr.Starved.Run.Targets = nil
		}, "? unobserved", 4},
	})
}

func shift(truth *Truth, by time.Duration) {
	for _, at := range []*time.Duration{&truth.Start.From, &truth.Start.To, &truth.End.From, &truth.End.To} {
		*at += by
	}
}

// invent adds a window of nothing.
func invent(tr *Trial, at time.Duration) {
	w := tr.Live.Windows[0]
	w.ID, w.Failed = 3, 0
	w.Start = model.Instant{Earliest: at - 5*ms, Latest: at + ms}
	w.End = model.Instant{Earliest: at, Latest: at + 6*ms}
	tr.Live.Windows = append(tr.Live.Windows, w)
}

// unsee takes away the window of the first outage.
func unsee(tr *Trial) { tr.Live.Windows = tr.Live.Windows[1:] }

// unsend takes away the 20 requests that met it, which leaves nothing sent for so long.
func unsend(tr *Trial, silence time.Duration) {
	tr.Books.flights[1] = slices.DeleteFunc(tr.Books.flights[1], func(f flight) bool { return f.class == timeline.Refused })
	clear(tr.Books.inside[0])
	target := &tr.Live.Targets[0]
	target.Sent, target.Failed, target.Resolution = target.Sent-20, target.Failed-20, silence
	tr.Live.Verdict.Failed -= 20
}

// add enters a request that the run knows of as well.
func add(tr *Trial, q timeline.Request) {
	tr.Books.Add(q)
	target := &tr.Live.Targets[0]
	target.Sent++
	if q.Class == timeline.OK {
		target.OK++
		return
	}
	target.Failed++
	tr.Live.Verdict.Failed++
	tr.Live.Windows[0].Failed++
}

// dim makes some time unobserved.
func dim(tr *Trial, from, to time.Duration) {
	tr.Live.Unobserved = append(tr.Live.Unobserved, model.Unobserved{Target: "new", Start: from, End: to})
	target := &tr.Live.Targets[0]
	target.Coverage = observed(*target, tr.Live)
	tr.Live.Verdict.Coverage = target.Coverage
}

// starved is a run that was stopped from 0.5 s to 1.5 s.
func starved(code int) *Starved {
	tl := &model.Timeline{
		Targets:    []model.Target{{Name: "new", Kind: timeline.New, Measured: model.Instant{Latest: 3400 * ms}}},
		Unobserved: []model.Unobserved{{Target: "new", Start: 490 * ms, End: 1510 * ms}},
	}
	tl.Targets[0].Coverage = observed(tl.Targets[0], tl)
	tl.Verdict.Coverage = tl.Targets[0].Coverage
	return &Starved{From: 500 * ms, To: 1500 * ms, ExitCode: code, Run: tl}
}

func TestBooksWantGoodAnswersToBePossible(t *testing.T) {
	truths := Truths(Plan{
		{Class: Stalled, Kind: faultserver.Stall, From: time.Second, To: 2 * time.Second},
		{Class: Slow, Kind: faultserver.Slow, From: 4 * time.Second, To: 4100 * ms},
	}, nil)
	held := func(kind faultserver.Kind, at, sent, done time.Duration, code uint16) *Books {
		b := NewBooks(truths, []faultserver.Act{{Kind: kind, At: at}}, 1)
		b.Count(timeline.Target{ID: 1, Kind: timeline.New})
		b.Add(timeline.Request{Target: 1, Sent: sent, Done: done, Outcome: timeline.Outcome{Class: timeline.OK, Code: code}})
		return b
	}
	for _, test := range []struct {
		name  string
		books *Books
		truth int
		agree bool
	}{
		{"a stall lets go", held(faultserver.Stall, 1500*ms, 1500*ms, 2001*ms, 200), 0, true},
		{"answered while it lasted", held(faultserver.Stall, 1500*ms, 1500*ms, 1900*ms, 200), 0, false},
		{"late and answered all the same", held(faultserver.Stall, 1100*ms, 1100*ms, 1900*ms, 200), 0, false},
		{"held back", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 200), 1, true},
		{"not for as long", held(faultserver.Slow, 4050*ms, 4050*ms, 4600*ms, 200), 1, false},
		{"without a status", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 0), 1, false},
		{"a redirect", held(faultserver.Slow, 4050*ms, 4050*ms, 4610*ms, 302), 1, false},
	} {
		if got := test.books.Accounts[test.truth].Agrees(truths[test.truth].Class()) && test.books.Balanced(); got != test.agree {
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

func TestTruthsAreJoinedAsWindowsAre(t *testing.T) {
	o := func(c Class, from, to time.Duration) Outage { return Outage{Class: c, From: from, To: to} }
	truths := Truths(Plan{
		o(Reset, 1*time.Second, 1100*ms), o(EOF, 1700*ms, 1800*ms), o(Slow, 2300*ms, 2350*ms), o(Goodbye, 2400*ms, 2450*ms),
		o(Random, 2700*ms, 3*time.Second), o(Error, 5*time.Second, 6*time.Second),
	}, nil)
	var got strings.Builder
	for _, truth := range Joined(truths, time.Second) {
		for _, o := range truth.Outages {
			got.WriteString(string(o.Class) + " ")
		}
		got.WriteString(truth.Start.From.String() + " to " + truth.End.To.String() + "\n")
	}
	want := "reset eof 1 in N 1s to 3s\nslow 2.3s to 2.35s\nhttp 5xx 5s to 6s\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestTableFitsAndAnswersInWords(t *testing.T) {
	var b strings.Builder
	trial := perfect()
	trial.Starved = starved(4)
	if err := Judge(trial).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 110 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"PASS ", "--seed 1 --rate 200 --duration 5s", "HOW WRONG CAN A NUMBER BE", "the shortest of 99.9ms", "1/1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	t.Log("\n" + b.String())
}
