package trend

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// An Outcome is what runs, or a day, showed of a Service.
type Outcome string

const (
	Dropped    Outcome = "dropped"    // a request failed, whatever the verdict
	GateFailed Outcome = "gateFailed" // none did, and a gate failed
	Unmeasured Outcome = "unmeasured" // more may have been lost than was seen
	Passed     Outcome = "passed"
	Nothing    Outcome = "nothing" // a day that was observed, without a run
)

// OutcomeOf returns the worst that lines show.
func OutcomeOf(lines ...history.Line) Outcome {
	of := Day{}
	for i := range lines {
		of.count(&lines[i])
	}
	return of.outcome(false)
}

// wholeDay is the share of a day that must have been observed. The rest is the replacement of a guard by the next.
const wholeDay = 0.99

// A Day is what the runs of a Service showed that went on on a day (UTC).
type Day struct {
	Date    string  `json:"date"` // 2026-11-26
	Outcome Outcome `json:"outcome"`

	Runs       int `json:"runs"`
	Dropped    int `json:"dropped,omitzero"` // runs
	GateFailed int `json:"gateFailed,omitzero"`
	Unmeasured int `json:"unmeasured,omitzero"`
	Failed     int `json:"failed,omitzero"` // requests
	Sent       int `json:"sent,omitzero"`

	// the share of the day that a guard observed: from when it was first observed, until now
	Observed float64 `json:"observed"`
	// when the Service was first observed on this day; absent if it was guarded before, or not at all
	Since time.Time `json:"since,omitzero"`
}

// ServiceDays are the days of a Service, or of URLs, the oldest first.
type ServiceDays struct {
	Service string `json:"service"`
	Days    []Day  `json:"days"`
}

// Days returns the last n days, until now, of each Service that has a run or was observed in them, by its name.
func Days(lines []history.Line, observed history.Observed, now time.Time, n int) []ServiceDays {
	all, guarded := map[string][]Day{}, len(observed.Days) > 0
	dates := make([]string, n)
	for i := range dates {
		dates[i] = history.DayOf(now.UTC().AddDate(0, 0, 1-n+i))
	}
	of := func(service string) []Day {
		if all[service] == nil {
			for _, date := range dates {
				all[service] = append(all[service], Day{Date: date})
			}
		}
		return all[service]
	}
	for _, l := range disruptions(latest(lines)) {
		began, ended := history.DayOf(l.T0), history.DayOf(l.T0.Add(max(0, l.Duration-1))) // midnight ends a day
		for i, date := range dates {
			if began <= date && date <= ended {
				of(cmp.Or(l.Service, strings.Join(l.URLs, " ")))[i].count(l)
			}
		}
	}
	for i, date := range dates {
		for service, length := range observed.Days[date] {
			day := &of(service)[i]
			day.Since = observed.Since(service, date)
			whole := lengthOf(date, day.Since, observed.Until, now)
			day.Observed = min(1, float64(length)/float64(whole))
		}
	}
	list := make([]ServiceDays, 0, len(all))
	for service, days := range all {
		for i := range days {
			days[i].Outcome = days[i].outcome(guarded)
		}
		list = append(list, ServiceDays{service, days})
	}
	slices.SortFunc(list, func(a, b ServiceDays) int { return cmp.Compare(a.Service, b.Service) })
	return list
}

// staleAfter is how old what a guard has written may be while it goes on: it writes once a minute.
const staleAfter = 3 * time.Minute

// lengthOf returns how long a day is, since an instant on it if that is not zero, and until now if it is today. Of the
// time since a guard wrote last nothing is known yet.
func lengthOf(date string, since, written, now time.Time) time.Duration {
	if now.Sub(written) > staleAfter {
		written = now
	}
	start, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 24 * time.Hour
	}
	end := start.AddDate(0, 0, 1)
	if date == history.DayOf(written) {
		end = written
	}
	if since.After(start) {
		start = since
	}
	return max(time.Second, end.Sub(start))
}

func (d *Day) count(l *history.Line) {
	d.Runs++
	d.Failed += l.Failed
	d.Sent += l.Sent
	switch {
	case l.Failed > 0:
		d.Dropped++
	case l.Unknown():
		d.Unmeasured++
	case l.Verdict == model.Fail:
		d.GateFailed++
	}
}

// outcome returns the worst of a day. A guarded one that was not observed throughout may hide what is worse than a
// pass.
func (d *Day) outcome(guarded bool) Outcome {
	switch {
	case d.Dropped > 0:
		return Dropped
	case d.GateFailed > 0:
		return GateFailed
	case d.Unmeasured > 0, (guarded || d.Runs == 0) && d.Observed < wholeDay:
		return Unmeasured
	case d.Runs > 0:
		return Passed
	}
	return Nothing
}
