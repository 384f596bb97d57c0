package correlate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

// tick is the interval of the requests that tests write as a row of words.
const tick = 10 * time.Millisecond

var rowClasses = map[string]timeline.Class{
	"ok": timeline.OK, "x": timeline.Refused, "t": timeline.TimeoutResponse, "slot": timeline.NoSlot,
	"late": timeline.NotSent, "local": timeline.Local,
}

// row reads requests from words, one per tick: "ok", "x" for refused, "t" for timed out, "-" for
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
				requests = append(requests, timeline.Request{Target: 1, Seq: uint64(at), Due: due, Sent: due, Done: done, Outcome: timeline.Outcome{Class: rowClasses[word]}})
			}
			at++
		}
	}
	return requests
}

// rowRun is the run that sent a row of requests and ended a tick after the last, unless it is told otherwise. Windows
// join across 5 ticks; a success that takes 4 is slow; requests time out after 8.
func rowRun(requests []timeline.Request, events ...timeline.Event) timeline.Run {
	end := time.Duration(0)
	for _, r := range requests {
		end = max(end, r.Due+tick)
	}
	return timeline.Run{
		Meta:    timeline.Meta{Options: timeline.Options{Join: 5 * tick, Slow: 4 * tick, Timeout: 8 * tick}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, Rate: float64(time.Second / tick), Timeout: 8 * tick}},
		Events:  append(slices.Clone(events), timeline.Event{Seen: end, Kind: timeline.RunPhase, To: "ended"}),
		Batches: func(yield func(timeline.Batch, error) bool) {
			yield(timeline.Batch{Requests: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: end}}}, nil)
		},
	}
}

func analyze(t testing.TB, run timeline.Run) *Timeline {
	t.Helper()
	tl, err := Analyze(run, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// ticks writes an instant in ticks.
func ticks(d time.Duration) string {
	return strconv.FormatFloat(math.Round(float64(d)/float64(tick)*100)/100, 'f', -1, 64)
}

// inTicks writes what a window says of time, in ticks.
func inTicks(w Window) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s start %s..%s end %s..%s length %s..%s", w.Kind, w.Basis,
		ticks(w.Start.Earliest), ticks(w.Start.Latest), ticks(w.End.Earliest), ticks(w.End.Latest), ticks(w.Length.Min), ticks(w.Length.Max))
	if w.Kind == Slow {
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

func TestWindows(t *testing.T) {
	for _, test := range []struct {
		name, row string
		want      []string
	}{
		{"no failure makes no window", "ok ok ok ok", nil},
		{"brackets reach from good request to failure and from failure to good request",
			"ok ok x x x ok",
			[]string{"outage exact start 1..2 end 4..5 length 2..4 3/3 blackout 2..4"}},
		{"one failure is a partial window whose length may be nothing",
			"ok ok x ok ok",
			[]string{"partial exact start 1..2 end 2..3 length 0..2 1/1"}},
		{"two failures are no outage",
			"ok x x ok",
			[]string{"partial exact start 0..1 end 2..3 length 1..3 2/2"}},
		{"failures near each other are one window, and the success inside makes it statistical",
			"ok*20 x x x ok x ok*40",
			[]string{"partial statistical start 12..20 end 24..32 length 4..20 4/5 blackout 2..4"}},
		{"failures a join apart are two windows",
			"ok x x x ok ok ok ok x ok",
			[]string{
				"outage exact start 0..1 end 3..4 length 2..4 3/3 blackout 2..4",
				"partial exact start 7..8 end 8..9 length 0..2 1/1"}},
		{"failures far apart without a success between are one window",
			"ok x x - - x - - x - - x ok",
			[]string{"outage exact start 0..1 end 11..12 length 10..12 5/5 blackout 10..12"}},
		{"a success that overlaps a failure lies not between",
			"ok x+2 ok+0.5 x x - ok",
			[]string{"outage exact start 0..3 end 4..6 length 1..6 3/3 blackout 1..6"}},
		{"a success counts as inside only if sent after the fault was known and done before it last showed",
			"ok*20 x+2 ok+1 ok+3 ok+0.5 x ok*40",
			[]string{"partial statistical start 2..22 end 24..42 length 2..40 2/3"}},
		{"a success sent amid failures lies inside although its answer takes longer than they last",
			"ok+3*200 x x ok+3 ok+3 x x ok+3*60",
			[]string{"partial statistical start 188..200 end 205..218 length 5..30 4/6 blackout 5..12"}},
		{"a good request in flight when the failures begin does not move the start",
			"ok ok+3 ok+3 x x x+3 ok",
			[]string{"outage exact start 0..3 end 5..8 length 2..8 3/3 blackout 2..8 open-end"}},
		{"what begins with failures is open at the start, what ends with them at the end",
			"x x x",
			[]string{"outage exact start 0..0 end 2..3 length 2..3 3/3 blackout 2..3 open-start open-end"}},
		{"too few successes beside a partial window leave it open",
			"ok x ok x ok",
			[]string{"partial statistical start 0..1 end 3..5 length 2..5 2/3 open-start open-end"}},
		{"a window does not reach back into the one before",
			"ok*40 x x x ok ok ok ok ok x ok x ok*40",
			[]string{
				"outage exact start 39..40 end 42..43 length 2..4 3/3 blackout 2..4",
				"partial statistical start 42..48 end 50..68 length 2..26 2/3"}},
		{"a window does not reach forward into the next one",
			"ok*40 x ok x ok ok ok ok ok ok x x x ok*40",
			[]string{
				"partial statistical start 22..40 end 42..49 length 2..27 2/3",
				"outage exact start 48..49 end 51..52 length 2..4 3/3 blackout 2..4"}},
		{"unobserved time before a failure opens the start",
			"ok ok ok - - - - - - x x x ok",
			[]string{"outage exact start 9..9 end 11..12 length 2..3 3/3 blackout 2..3 open-start"}},
		{"unobserved time after a failure opens the end",
			"ok ok x x x - - - - - - ok ok",
			[]string{"outage exact start 1..2 end 4..4 length 2..3 3/3 blackout 2..3 open-end"}},
		{"unobserved time of a join between failures parts windows",
			"ok x x x - - - - - - x x x ok",
			[]string{
				"outage exact start 0..1 end 3..3 length 2..3 3/3 blackout 2..3 open-end",
				"outage exact start 10..10 end 12..13 length 2..3 3/3 blackout 2..3 open-start"}},
		{"shorter unobserved time between failures does not, but no blackout spans it",
			"ok x x x - - - x x x ok",
			[]string{"outage exact start 0..1 end 9..10 length 8..10 6/6 blackout 2..3"}},
		{"what we could not send makes no window",
			"ok ok late late local ok ok", nil},
		{"what we could not send opens a window beside it",
			"ok ok late x x x late ok",
			[]string{"outage exact start 3..3 end 5..5 length 2..2 3/3 blackout 2..2 open-start open-end"}},
		{"with little known of the target a timeout proves the fault when it is over",
			"ok+0.5 ok+0.5 t+8 t+8 t+8 ok ok ok ok ok ok ok ok ok ok",
			[]string{"outage exact start 1..10 end 4..12 length 0..11 3/3 blackout 0..11"}},
		{"a timeout proves the fault as soon as an answer would have come",
			"ok+0.05*500 t+8 t+8 t+8 ok+0.05*20",
			[]string{"outage statistical start 499..500.05 end 502..503.05 length 1.95..4.05 3/3 blackout 1.95..4.05"}},
		{"a request refused for want of a connection fails the target",
			"ok+0.05*500 t+8 slot slot ok+0.05*20",
			[]string{"outage statistical start 499..500.05 end 501.95..503.05 length 1.9..4.05 3/3 blackout 1.9..4.05"}},
		{"slow successes are windows of their own",
			"ok*20 ok+5 ok+6 ok ok ok ok ok ok ok ok x ok",
			[]string{
				"slow exact start 19..24 end 21..25 length 0..6 2/2",
				"partial exact start 29..30 end 30..31 length 0..2 1/1"}},
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
				t.Errorf("%s\n got %s\nwant %s", test.row, strings.Join(got, "\n     "), strings.Join(test.want, "\n     "))
			}
		})
	}
}
