package selftest

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

const (
	ms   = time.Millisecond
	rate = 200
)

// perfect is a trial in which one target saw two outages as well as can be: one of every request from 1 s to 1.1 s, and one
// of a share from 3 s to 3.5 s. The server knows their edges to 100 µs.
func perfect() Trial {
	plan := Plan{
		{Class: Refused, Kind: faultserver.Refuse, From: time.Second, To: 1100 * ms},
		{Class: Random, Kind: faultserver.Error, From: 3 * time.Second, To: 3500 * ms, Share: 0.5},
	}
	truths := Truths(plan, []faultserver.Outage{{
		Close: faultserver.Span{From: time.Second, To: time.Second + 100*time.Microsecond},
		Open:  faultserver.Span{From: 1100 * ms, To: 1100*ms + 100*time.Microsecond},
	}})
	acts := []faultserver.Act{{Kind: faultserver.Error, At: 3001 * ms}, {Kind: faultserver.Error, At: 3400 * ms}}
	tl := &correlate.Timeline{
		Targets: []correlate.Target{{ID: 1, Name: "new", Kind: timeline.New, Rate: rate, Resolution: 6 * ms}},
		Windows: []correlate.Window{
			{
				Target: "new", Kind: correlate.Outage, Basis: correlate.Exact,
				Start: correlate.Instant{Earliest: 998 * ms, Latest: 1003 * ms}, End: correlate.Instant{Earliest: 1098 * ms, Latest: 1104 * ms},
			},
			{
				Target: "new", Kind: correlate.Partial, Basis: correlate.Statistical,
				Start: correlate.Instant{Earliest: 2950 * ms, Latest: 3002 * ms}, End: correlate.Instant{Earliest: 3400 * ms, Latest: 3550 * ms},
			},
		},
		Verdict: correlate.Verdict{Coverage: 1},
	}
	books := NewBooks(truths, acts, 2)
	books.Count(timeline.Target{ID: 1, Kind: timeline.New})
	for _, q := range []timeline.Request{
		request(998*ms, timeline.OK), request(1003*ms, timeline.Refused), request(1098*ms, timeline.Refused),
		request(3001*ms, timeline.HTTP5xx), request(3100*ms, timeline.OK), request(3400*ms, timeline.HTTP5xx),
	} {
		books.Add(q)
	}
	return Trial{Seed: 1, Rate: rate, Duration: 5 * time.Second, Plan: plan, Truths: truths, Books: books, Live: tl, Wide: tl, Again: true}
}

// request takes 500 µs.
func request(sent time.Duration, class timeline.Class) timeline.Request {
	return timeline.Request{Target: 1, Sent: sent, Done: sent + 500*time.Microsecond, Outcome: timeline.Outcome{Class: class, Code: 200}}
}

// outcomes are a mark for each promise, in order: found, none invented, exact, statistical, counts, judged again, joined, starved.
func outcomes(r *Report) string {
	var s strings.Builder
	for _, p := range r.Promises {
		s.WriteString(marks[p.Outcome])
	}
	return s.String()
}

func TestJudgePassesWhatIsTrueAndNothingElse(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*Trial)
		outcomes string
		code     int
	}{
		{"all is well", func(*Trial) {}, "vvvvvvv", 0},
		{"the truth of an outage came a bracket's width sooner", func(tr *Trial) { shift(&tr.Truths[0], -6*ms) }, "vvxvvvx", 3},
		{"or later", func(tr *Trial) { shift(&tr.Truths[0], 6*ms) }, "vvxvvvx", 3},
		{"the truth of a share came a bracket's width sooner", func(tr *Trial) { shift(&tr.Truths[1], -160*ms) }, "vvvxvvx", 3},
		{"the truth lies elsewhere", func(tr *Trial) { shift(&tr.Truths[0], time.Second) }, "xxvvvvx", 3},
		{"an outage has no window", func(tr *Trial) { tr.Live.Windows = tr.Live.Windows[1:] }, "xvvvvvv", 3},
		{"no request met it", func(tr *Trial) {
			tr.Live.Windows = tr.Live.Windows[1:]
			clear(tr.Books.inside[0])
		}, "?vvvvvv", 4},
		{"and it was short", func(tr *Trial) {
			tr.Live.Windows = tr.Live.Windows[1:]
			tr.Truths[0].End = faultserver.Span{From: 1009 * ms, To: 1010 * ms}
			clear(tr.Books.inside[0])
		}, "vvvvvvv", 0},
		{"nobody looked", func(tr *Trial) {
			tr.Live.Windows = tr.Live.Windows[1:]
			tr.Live.Unobserved = []correlate.Unobserved{{Target: "new", Start: 1050 * ms, End: 1070 * ms}}
		}, "vvvvvvv", 0},
		{"a window of nothing", func(tr *Trial) { invent(tr, 2*time.Second) }, "vxvvvvx", 3},
		{"where nobody looked", func(tr *Trial) {
			invent(tr, 2*time.Second)
			tr.Live.Unobserved = []correlate.Unobserved{{Target: "new", Start: 1995 * ms, End: 2001 * ms}}
		}, "vvvvvvv", 0},
		{"a failure of another kind", func(tr *Trial) { tr.Books.Add(request(1050*ms, timeline.HTTP5xx)) }, "vvvvxvv", 3},
		{"a good answer while nobody listened", func(tr *Trial) {
			tr.Books.Add(request(1050*ms, timeline.OK))
			tr.Books.Answered++
		}, "vvvvxvv", 3},
		{"one failure too many", func(tr *Trial) { tr.Books.Add(request(3200*ms, timeline.HTTP5xx)) }, "vvvvxvv", 3},
		{"one too few", func(tr *Trial) { tr.Books.Accounts[1].Failed-- }, "vvvvxvv", 3},
		{"an answer that the server did not give", func(tr *Trial) { tr.Books.Add(request(2*time.Second, timeline.OK)) }, "vvvvxvv", 3},
		{"the recording says something else", func(tr *Trial) { tr.Again = false }, "vvvvvxv", 3},
		{"too little was observed to pass", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.998 }, "vvvvvvv", 4},
		{"or to fail", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.998; invent(tr, 2*time.Second) }, "vxvvvvx", 4},
		{"a stopped prober says so", func(tr *Trial) { tr.Starved = starved(4) }, "vvvvvvvv", 0},
		{"a stopped prober passes", func(tr *Trial) { tr.Starved = starved(0) }, "vvvvvvvx", 3},
		{"whatever was observed otherwise", func(tr *Trial) { tr.Live.Verdict.Coverage = 0.5; tr.Starved = starved(0) }, "vvvvvvvx", 3},
		{"a stopped prober blames the server", func(tr *Trial) {
			tr.Starved = starved(4)
			tr.Starved.Run.Windows = tr.Live.Windows[:1]
		}, "vvvvvvvx", 3},
	}
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
			}
		})
	}
}

func shift(truth *Truth, by time.Duration) {
	for _, at := range []*time.Duration{&truth.Start.From, &truth.Start.To, &truth.End.From, &truth.End.To} {
		*at += by
	}
}

func invent(tr *Trial, at time.Duration) {
	w := tr.Live.Windows[0]
	w.Start = correlate.Instant{Earliest: at - 5*ms, Latest: at + ms}
	w.End = correlate.Instant{Earliest: at, Latest: at + 6*ms}
	tr.Live.Windows = append(tr.Live.Windows, w)
}

// starved is a run that was stopped from 0.5 s to 1.5 s.
func starved(code int) *Starved {
	return &Starved{From: 500 * ms, To: 1500 * ms, ExitCode: code, Run: &correlate.Timeline{
		Unobserved: []correlate.Unobserved{{Target: "new", Start: 490 * ms, End: 1510 * ms}},
	}}
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
		{Held{0, 0}, Kept}, {Held{20, 20}, Kept}, {Held{19, 20}, Undecided}, {Held{17, 20}, Broken}, {Held{3, 4}, Broken},
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
