package trend

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// noon is that of the day of which runs begin at 10:00.
var noon = began.Add(2 * time.Hour)

// throughout is that a guard has observed shop/web all the time until noon.
func throughout() (o history.Observed) {
	for at := noon.AddDate(0, 0, -3); at.Before(noon); at = at.Add(time.Minute) {
		o.Add(at.Add(time.Minute), map[string]time.Duration{"shop/web": time.Minute})
	}
	return o
}

// gateFailed is a run without a failure, of which a gate failed.
func gateFailed(l *history.Line) { l.Verdict = model.Fail }

func days(back int) func(*history.Line) {
	return func(l *history.Line) { l.T0 = l.T0.AddDate(0, 0, -back) }
}

func TestADayIsTheWorstOfItsRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []history.Line
		want  Day
	}{
		"nothing":      {nil, Day{Outcome: Nothing}},
		"passed":       {runs(0, 0, 0), Day{Outcome: Passed, Runs: 2, Sent: 2000}},
		"dropped":      {[]history.Line{run(0, 7), run(1, 0, inconclusive), run(2, 0)}, Day{Outcome: Dropped, Runs: 3, Dropped: 1, Unmeasured: 1, Failed: 7, Sent: 3000}},
		"gate":         {[]history.Line{run(0, 0, gateFailed), run(1, 0, aborted)}, Day{Outcome: GateFailed, Runs: 2, GateFailed: 1, Unmeasured: 1, Sent: 2000}},
		"unmeasured":   {[]history.Line{run(0, 0), run(1, 0, unmeasured)}, Day{Outcome: Unmeasured, Runs: 2, Unmeasured: 1, Sent: 1000}},
		"told twice":   {[]history.Line{run(0, 0), run(0, 0)}, Day{Outcome: Passed, Runs: 1, Sent: 1000}},
		"too long ago": {[]history.Line{run(0, 7, days(3))}, Day{Outcome: Nothing}},
	} {
		got := Days(tt.lines, throughout(), noon, 2)
		tt.want.Date, tt.want.Observed = "2026-11-01", 1
		want := []ServiceDays{{"shop/web", []Day{{Date: "2026-10-31", Outcome: Nothing, Observed: 1}, tt.want}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An outage of hours is on each day on which it went on: nothing else happens while it lasts.
func TestARunIsOnEachDayOnWhichItWentOn(t *testing.T) {
	midnight := noon.Truncate(24 * time.Hour)
	from := func(began, ended time.Time) history.Line {
		return run(0, 7, func(l *history.Line) { l.T0, l.Duration = began, ended.Sub(began) })
	}
	dropped, quiet := Day{Outcome: Dropped, Runs: 1, Dropped: 1, Failed: 7, Sent: 1000, Observed: 1}, Day{Outcome: Nothing, Observed: 1}
	for name, tt := range map[string]struct {
		line history.Line
		want []Day // the day before yesterday is not asked for
	}{
		"over midnight":         {from(midnight.Add(-2*time.Hour), midnight.Add(10*time.Hour)), []Day{dropped, dropped}},
		"until midnight":        {from(midnight.Add(-2*time.Hour), midnight), []Day{dropped, quiet}},
		"from before the first": {from(midnight.Add(-26*time.Hour), midnight.Add(-20*time.Hour)), []Day{dropped, quiet}},
		"without a length":      {from(midnight, midnight), []Day{quiet, dropped}},
	} {
		tt.want[0].Date, tt.want[1].Date = "2026-10-31", "2026-11-01"
		got := Days([]history.Line{tt.line}, throughout(), noon, 2)
		if diff := cmp.Diff([]ServiceDays{{"shop/web", tt.want}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A day on which nobody looked is none on which nothing happened.
func TestADayThatWasNotObservedIsNotHealthy(t *testing.T) {
	half := history.Observed{}
	half.Add(noon.AddDate(0, 0, -1), map[string]time.Duration{"shop/web": 12 * time.Hour})
	half.Add(noon, map[string]time.Duration{"shop/web": 12 * time.Hour})
	outcomes := func(o history.Observed, now time.Time, lines ...history.Line) (all []Outcome) {
		for _, d := range Days(lines, o, now, 2)[0].Days {
			all = append(all, d.Outcome)
		}
		return all
	}
	for name, tt := range map[string]struct{ got, want []Outcome }{
		"half a day":                   {outcomes(half, noon), []Outcome{Unmeasured, Nothing}},
		"a pass in half a day":         {outcomes(half, noon, run(0, 0, days(1))), []Outcome{Unmeasured, Nothing}},
		"no guard":                     {outcomes(history.Observed{}, noon, run(0, 0)), []Outcome{Unmeasured, Passed}},
		"no guard, a failure":          {outcomes(history.Observed{}, noon, run(0, 1)), []Outcome{Unmeasured, Dropped}},
		"written a minute ago":         {outcomes(half, noon.Add(time.Minute)), []Outcome{Unmeasured, Nothing}},
		"away for the last hour":       {outcomes(half, noon.Add(time.Hour)), []Outcome{Unmeasured, Unmeasured}},
		"away since yesterday at noon": {outcomes(half, noon.AddDate(0, 0, 1)), []Outcome{Unmeasured, Unmeasured}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestARunOfURLsHasADay(t *testing.T) {
	l := run(0, 0, func(l *history.Line) { l.Service, l.URLs = "", []string{"http://a/", "http://b/"} })
	if got := Days([]history.Line{l}, history.Observed{}, noon, 1); len(got) != 1 || got[0].Service != "http://a/ http://b/" || got[0].Days[0].Runs != 1 {
		t.Errorf("%+v", got)
	}
}

// The day on which a Service was first observed is measured whole if it was from then on. What was missed after that is
// missing, as on any day, and so is what a guard that was away missed before it began again.
func TestTheFirstDayCountsFromItsFirstObservedSecond(t *testing.T) {
	midnight := noon.Truncate(24 * time.Hour)
	clock := func(hours float64) time.Time {
		return midnight.Add(time.Duration(hours * float64(time.Hour))).Round(time.Second)
	}
	// observes is a guard that is there from one hour until another, and was told to guard shop/web or not.
	observes := func(o *history.Observed, from, to float64, guarded bool) {
		for at := clock(from); at.Before(clock(to)); at = at.Add(time.Minute) {
			lengths := map[string]time.Duration{"shop/api": time.Minute}
			if guarded {
				lengths["shop/web"] = time.Minute
			}
			o.Add(at.Add(time.Minute), lengths)
		}
	}
	for name, tt := range map[string]struct {
		observed func(o *history.Observed)
		outcome  Outcome
		since    float64 // hours; 0: none
		share    float64
	}{
		"installed at 9:12": {func(o *history.Observed) { observes(o, 9.2, 12, true) }, Nothing, 9.2, 1},
		"and then away for an hour": {func(o *history.Observed) {
			observes(o, 9.2, 10, true)
			observes(o, 11, 12, true)
		}, Unmeasured, 9.2, 1.8 / 2.8},
		"not annotated for two days": {func(o *history.Observed) {
			observes(o, -60, -50, true)
			observes(o, -50, 9, false)
			observes(o, 9, 12, true)
		}, Nothing, 9, 1},
		"away for two days": {func(o *history.Observed) {
			observes(o, -60, -50, true)
			observes(o, 9, 12, true)
		}, Unmeasured, 0, 3. / 12},
		"not annotated for an hour": {func(o *history.Observed) {
			observes(o, -24, 9, true)
			observes(o, 9, 10, false)
			observes(o, 10, 12, true)
		}, Unmeasured, 0, 11. / 12},
		"before spans were kept": {func(o *history.Observed) {
			observes(o, -24, -4, true)
			o.Guarded = nil
			observes(o, 9, 12, true)
		}, Unmeasured, 0, 3. / 12},
	} {
		var o history.Observed
		tt.observed(&o)
		days := Days(nil, o, noon, 2)
		day := days[len(days)-1].Days[1] // of shop/web, after shop/api
		var since time.Time
		if tt.since > 0 {
			since = clock(tt.since)
		}
		if day.Outcome != tt.outcome || !day.Since.Equal(since) || math.Abs(day.Observed-tt.share) > 0.002 {
			t.Errorf("%s: %+v, want %s since %v, %.3f of it", name, day, tt.outcome, since, tt.share)
		}
	}
}
