package correlate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// tick is the interval of the requests that tests write as a row of words.
const tick = 10 * time.Millisecond

var rowClasses = map[string]timeline.Class{
	"ok": timeline.OK, "x": timeline.Refused, "t": timeline.TimeoutResponse, "slot": timeline.NoSlot,
	"c": timeline.TimeoutConnect, "e": timeline.HTTP5xx, "late": timeline.NotSent, "local": timeline.Local,
	"delayed": timeline.OK, // and our own stop may be to blame for what it took
}

// row reads requests from words, one per tick: "ok", "x" for refused, "t" for timed out, "e" for a 5xx, "-" for
// none sent; see rowClasses. "ok+1.5" is done 1.5 ticks after it was sent, "ok" at once. "ok*3" is three of
// them.
func row(text string) []timeline.Request {
	var requests []timeline.Request
	at := 0
	for word := range strings.FieldsSeq(text) {
		word, times, repeated := strings.Cut(word, "*")
		n := 1
		if repeated {
			n = must(strconv.Atoi(times))
		}
		word, took, _ := strings.Cut(word, "+")
		for range n {
			if word != "-" {
				due := time.Duration(at) * tick
				ticks := 0.0
				if took != "" {
					ticks = must(strconv.ParseFloat(took, 64))
				}
				done := due + time.Duration(ticks*float64(tick))
				requests = append(requests, timeline.Request{Target: 1, Seq: uint64(at), Due: due, Sent: due,
					Done: done, Outcome: timeline.Outcome{Class: rowClasses[word], Delayed: word == "delayed"}})
			}
			at++
		}
	}
	return requests
}

// rowRun is the run that sent a row of requests and ended a tick after the last, unless the case says otherwise.
// Windows join across 5 ticks; a success that takes 4 is slow; requests time out after 8; a gap of more than 3 is a
// hole.
func rowRun(requests []timeline.Request, events ...timeline.Event) timeline.Run {
	end := time.Duration(0)
	for _, r := range requests {
		end = max(end, r.Due+tick)
	}
	return timeline.Run{
		Meta: timeline.Meta{Options: timeline.Options{Join: 5 * tick, Slow: 4 * tick, Timeout: 8 * tick,
			Resolution: 3 * tick}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, Rate: float64(time.Second / tick),
			Timeout: 8 * tick}},
		Events: append(slices.Clone(events), timeline.Event{Seen: end, Kind: timeline.RunPhase, To: "ended"}),
		Batches: func(yield func(timeline.Batch, error) bool) {
			yield(timeline.Batch{Requests: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: end}}}, nil)
		},
	}
}

func analyze(t testing.TB, run timeline.Run) *model.Timeline {
	t.Helper()
	tl := analyzed(t, run)
	return tl
}

// ticks writes an instant in ticks.
func ticks(d time.Duration) string {
	return strconv.FormatFloat(math.Round(float64(d)/float64(tick)*100)/100, 'f', -1, 64)
}

// inTicks writes what a window says of time, in ticks.
func inTicks(w model.Window) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s start %s..%s end %s..%s length %s..%s", w.Kind, w.Basis,
		ticks(w.Start.Earliest), ticks(w.Start.Latest), ticks(w.End.Earliest), ticks(w.End.Latest),
		ticks(w.Length.Min), ticks(w.Length.Max))
	if w.Kind == model.Slow {
		fmt.Fprintf(&b, " %d/%d", w.Slow, w.Sent)
	} else {
		fmt.Fprintf(&b, " %d/%d", w.Failed, w.Sent)
	}
	if w.Blackout != nil {
		fmt.Fprintf(&b, " blackout %s..%s", ticks(w.Blackout.Min), ticks(w.Blackout.Max))
	}
	if w.Open.Start {
		b.WriteString(" open-start")
	}
	if w.Open.End {
		b.WriteString(" open-end")
	}
	return b.String()
}

// Up to the resolution a gap between sends is no hole. It widens what lies beside it, and no more.
func TestGapWithinTheResolutionOnlyWidensBrackets(t *testing.T) {
	const text = "ok*20 x*8 - - - - - x*8 - - - - - ok*20"
	stalls := []timeline.Event{
		{Since: 28 * tick, Seen: 33 * tick, Kind: timeline.ProberStall},
		{Since: 41 * tick, Seen: 46 * tick, Kind: timeline.ProberStall},
	}
	for resolution, want := range map[time.Duration]string{
		5 * tick: "outage exact start 19..20 end 27..27 length 7..8 8/8 blackout 7..8 open-end + outage exact start " +
			"33..33 end 40..40 length 7..7 8/8 blackout 7..7 open-start open-end",
		6 * tick: "outage exact start 19..20 end 40..46 length 20..27 16/16 blackout 7..27",
	} {
		run := rowRun(row(text), stalls...)
		run.Meta.Options.Resolution = resolution
		tl := analyze(t, run)
		var got []string
		for _, w := range tl.Windows {
			got = append(got, inTicks(w))
		}
		if text := strings.Join(got, " + "); text != want {
			t.Errorf("--resolution %v:\n got %s\nwant %s", resolution, text, want)
		}
		target := tl.Targets[0]
		switch {
		case resolution == 6*tick && (target.Coverage != 1 || target.Resolution != 6*tick):
			t.Errorf("coverage %v, detection limit %v; want all of it observed, and the longest gap", target.Coverage,
				target.Resolution)
		case resolution == 6*tick && tl.Windows[0].Downtime != model.Length{Min: 14 * tick, Max: 27 * tick}:
			t.Errorf("downtime %+v; want no least in the gap, where the target may have been well",
				tl.Windows[0].Downtime)
		case resolution == 5*tick && (target.Coverage == 1 || target.Resolution != 1*tick):
			t.Errorf("coverage %v, detection limit %v; want two holes", target.Coverage, target.Resolution)
		}
	}
}

// Requests may time out long after the run. A window lies where they were sent.
func TestWindowOfTimeoutsLongerThanTheRunLiesWithinIt(t *testing.T) {
	run := rowRun(nil)
	var requests []timeline.Request
	for at := time.Duration(0); at < 2*time.Second; at += 500 * ms {
		requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: at, Sent: at,
			Done: at + 15*time.Second, Outcome: timeline.Outcome{Class: timeline.TimeoutResponse}})
	}
	run.Targets[0].Rate, run.Targets[0].Timeout = 2, 15*time.Second
	run.Events[0].Seen = 2 * time.Second
	run.Batches = func(yield func(timeline.Batch, error) bool) { yield(timeline.Batch{Requests: requests}, nil) }
	w := onlyWindow(t, analyze(t, run))
	if w.Start != (model.Instant{Earliest: 0, Latest: 2 * time.Second}) ||
		w.End != (model.Instant{Earliest: 1500 * ms, Latest: 2 * time.Second}) ||
		w.Open != (model.Open{Start: true, End: true}) || w.Length != (model.Length{Min: 0, Max: 2 * time.Second}) {
		t.Errorf("start %v, end %v, length %v, open %v; want all of it within the 2 s of the run", w.Start, w.End,
			w.Length, w.Open)
	}
}

func TestResolutionByDefaultIsTenIntervalsOr50ms(t *testing.T) {
	for _, test := range []struct {
		rate        float64
		asked, want time.Duration
	}{
		{1000, 0, 50 * ms}, {200, 0, 50 * ms}, {100, 0, 100 * ms}, {1, 0, 10 * time.Second},
		{1000, 10 * ms, 10 * ms}, {100, 10 * ms, 30 * ms}, {1, 10 * ms, 3 * time.Second}, {100, 200 * ms, 200 * ms},
	} {
		run := rowRun(row("ok*20"))
		run.Targets[0].Rate = test.rate
		run.Meta.Options.Resolution = test.asked
		if got := analyze(t, run).Targets[0].GapLimit; got != test.want {
			t.Errorf("%v/s, --resolution %v: %v, want %v", test.rate, test.asked, got, test.want)
		}
	}
}

func TestWindows(t *testing.T) {
	for _, test := range []struct {
		name, row string
		want      []string
	}{
		{"no failure makes no window", "ok ok ok ok", nil},
		{"brackets reach from good request to failure and from failure to good request",
			"ok ok x*8 ok",
			[]string{"outage exact start 1..2 end 9..10 length 7..9 8/8 blackout 7..9"}},
		{"one failure is a partial window whose length may be nothing",
			"ok*30 x ok*30",
			[]string{"partial statistical start 5..30 end 30..55 length 0..50 1/49"}},
		{"two failures are no outage",
			"ok*20 x x ok*20",
			[]string{"partial statistical start 10..20 end 21..31 length 1..21 2/20"}},
		{"a few failures in a row may be a share of which none happened to succeed",
			"ok*20 x x x ok*20",
			[]string{"outage statistical start 12..20 end 22..30 length 2..18 3/3 blackout 2..4"}},
		{"failures near each other are one window, and the success inside makes it statistical",
			"ok*20 x x x ok x ok*40",
			[]string{"partial statistical start 12..20 end 24..34 length 4..22 4/5 blackout 2..4"}},
		{"failures a join apart are two windows",
			"ok*30 x*8 ok*60 x ok*30",
			[]string{
				"outage exact start 29..30 end 37..38 length 7..9 8/8 blackout 7..9",
				"partial statistical start 73..98 end 98..123 length 0..50 1/49"}},
		{"failures far apart without a success between are one window",
			"ok x x - - x x - - x x - - x x ok",
			[]string{"outage exact start 0..1 end 14..15 length 13..15 8/8 blackout 13..15"}},
		{"a success that overlaps a failure lies not between",
			"ok x+2 ok+0.5 x*8 - ok",
			[]string{"outage exact start 0..3 end 10..12 length 7..12 9/9 blackout 7..12"}},
		{"successes sent among time-outs count, though none is proven to lie inside, and one proves no health",
			"ok+0.5*40 t+8 ok+0.5 t+8 t+8 ok+0.5 t+8 t+8 ok+0.5 t+8 t+8 t+8 t+8 ok+0.5*60",
			[]string{"partial statistical start 30..48 end 51..66.5 length 3..36.5 9/12 blackout 3..20.5"}},
		{"two time-outs with successes sent between them are a share of these",
			"ok+0.5*40 t+8 ok+0.5 ok+0.5 t+8 ok+0.5*60",
			[]string{"partial statistical start 15..48 end 43..75.5 length 0..60.5 2/4"}},
		{"where most time-outs came in a row, successes beside these overtook the slowest requests before a stall",
			"ok+0.5*40 t+8 ok+0.5 ok+0.5 t+8*20 ok+0.5 ok+0.5*60",
			[]string{"outage exact start 39..48 end 62..70.5 length 14..31.5 21/21 blackout 14..31.5"}},
		{"a success counts as inside only if sent after the fault was known and done before it last showed",
			"ok*40 x+2 ok+1 ok+3 ok+0.5 x ok*40",
			[]string{"partial statistical start 9..42 end 44..75 length 2..66 2/3"}},
		{"a success sent amid failures lies inside although its answer takes longer than they last",
			"ok+3*200 x x ok+3 ok+3 x x ok+3*60",
			[]string{"partial statistical start 184..200 end 205..222 length 5..38 4/6 blackout 0..12"}},
		{"a success sent and done amid failures as slow as it lies inside, though the first was not known when it " +
			"was sent",
			"ok+3*200 e+3 e+3 ok+3 ok+3 e+3 e+3 ok+3*60",
			[]string{"partial statistical start 184..203 end 205..224 length 2..40 4/6 blackout 0..14"}},
		{"a success that overtook the first failure, or that the last one overtook, does not",
			"ok+3*30 e+3 ok+1 e*8 ok+5 e+1 ok+3*40",
			[]string{
				"slow statistical start 6..44 end 40..71 length 0..65 1/1",
				"outage exact start 27..32 end 41..45 length 9..18 10/10 blackout 9..18"}},
		{"a success sent amid failed connections lies inside, whenever those were known to have failed",
			"ok+0.5*40 c+8 ok+0.5 ok+0.5 c+8 ok+0.5*60",
			[]string{"partial statistical start 15..48 end 43..75.5 length 0..60.5 2/4"}},
		{"a good request in flight when the failures begin does not move the start",
			"ok ok+3 ok+3 x*7 x+3 ok",
			[]string{"outage exact start 0..3 end 10..13 length 7..13 8/8 blackout 7..13 open-end"}},
		{"what begins with failures is open at the start, what ends with them at the end",
			"x*8",
			[]string{"outage exact start 0..0 end 7..8 length 7..8 8/8 blackout 7..8 open-start open-end"}},
		{"too few successes beside a partial window leave it open",
			"ok x ok x ok",
			[]string{"partial statistical start 0..1 end 3..5 length 2..5 2/3 open-start open-end"}},
		{"a window does not reach back into the one before",
			"ok*40 x*8 ok ok ok ok ok x ok x ok*40",
			[]string{
				"outage exact start 39..40 end 47..48 length 7..9 8/8 blackout 7..9",
				"partial statistical start 47..53 end 55..73 length 2..26 2/3"}},
		{"a window does not reach forward into the next one",
			"ok*40 x ok x ok ok ok ok ok ok x*8 ok*40",
			[]string{
				"partial statistical start 22..40 end 42..49 length 2..27 2/3",
				"outage exact start 48..49 end 56..57 length 7..9 8/8 blackout 7..9"}},
		{"unobserved time before a failure opens the start",
			"ok ok ok - - - - - - x*8 ok",
			[]string{"outage exact start 9..9 end 16..17 length 7..8 8/8 blackout 7..8 open-start"}},
		{"unobserved time after a failure opens the end",
			"ok ok x*8 - - - - - - ok ok",
			[]string{"outage exact start 1..2 end 9..9 length 7..8 8/8 blackout 7..8 open-end"}},
		{"unobserved time of a join between failures parts windows",
			"ok x*8 - - - - - - x*8 ok",
			[]string{
				"outage exact start 0..1 end 8..8 length 7..8 8/8 blackout 7..8 open-end",
				"outage exact start 15..15 end 22..23 length 7..8 8/8 blackout 7..8 open-start"}},
		{"shorter unobserved time between failures does not, but no blackout spans it",
			"ok x*5 - - - x*5 ok",
			[]string{"outage exact start 0..1 end 13..14 length 12..14 10/10 blackout 4..5"}},
		{"what we could not send makes no window",
			"ok ok late late local ok ok", nil},
		{"what we could not send for longer than a gap may be opens a window beside it",
			"ok ok late late late x*8 late local late ok",
			[]string{"outage exact start 5..5 end 12..12 length 7..7 8/8 blackout 7..7 open-start open-end"}},
		{"what we could not send for less widens its brackets",
			"ok ok late local x*8 late late ok",
			[]string{"outage exact start 1..4 end 11..14 length 7..13 8/8 blackout 7..13"}},
		{"with little known of the target a timeout proves the fault when it is over",
			"ok+0.5 ok+0.5 t+8*8 ok ok ok ok ok ok ok ok ok ok",
			[]string{"outage exact start 1..10 end 9..17 length 0..16 8/8 blackout 0..16"}},
		{"a timeout proves the fault as soon as an answer would have come",
			"ok+0.05*500 t+8*8 ok+0.05*20",
			[]string{"outage statistical start 499..500.05 end 507..508.05 length 6.95..9.05 8/8 blackout 6.95..9.05"}},
		{"a request refused for want of a connection fails the target",
			"ok+0.05*500 t+8 slot*7 ok+0.05*20",
			[]string{
				"outage statistical start 499..500.05 end 506.95..508.05 length 6.9..9.05 8/8 blackout 6.9..9.05"}},
		{"slow successes are windows of their own",
			"ok*20 ok+5*7 ok+6 ok*30 x ok*30",
			[]string{
				"slow exact start 19..24 end 27..31 length 3..12 8/8",
				"partial statistical start 33..58 end 58..83 length 0..50 1/49"}},
		{"a quick success among slow ones makes them statistical",
			"ok*20 ok+5 - - - - - ok ok+5 ok*40",
			[]string{"slow statistical start 2..24 end 27..48 length 3..46 2/3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, w := range analyze(t, rowRun(row(test.row))).Windows {
				got = append(got, inTicks(w))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s\n got %s\nwant %s", test.row, strings.Join(got, "\n     "),
					strings.Join(test.want, "\n     "))
			}
		})
	}
}

// Of requests sent at the same instant, which is read first means nothing: the success proves health all the same.
func TestASuccessSentWithTheLastFailureBeforeAWindowProvesItsStart(t *testing.T) {
	for _, first := range []int{30, 31} {
		requests := row("ok*32 ok*24 x ok*30")
		requests[first].Class = timeline.Refused
		requests[30].Due, requests[30].Sent, requests[30].Done = requests[31].Due, requests[31].Sent, requests[31].Done
		ws := analyze(t, rowRun(requests)).Windows
		if len(ws) != 2 || ws[1].Start.Earliest != requests[30].Sent || ws[1].Sent != 49 {
			t.Errorf("the failure is request %d: %+v, want one of 49 requests in the second window", first, ws)
		}
	}
}

// analyzed returns the judged run.
func analyzed(t testing.TB, run timeline.Run) *model.Timeline {
	t.Helper()
	tl, err := Analyze(run, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tl
}
