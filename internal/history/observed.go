package history

import "time"

// KeptDays is how many days [Observed] keeps.
const KeptDays = 31

// Observed says how long a guard has observed its Services, by day (UTC) and Service. What it does not say was not
// observed: the guard was away, or could not measure.
//
//	{"until":"2026-11-26T14:03:00Z","days":{"2026-11-26":{"shop/web":50580000000000}}}
type Observed struct {
	Until time.Time                           `json:"until"` // when it was written
	Days  map[string]map[string]time.Duration `json:"days"`
}

// DayOf returns the day (UTC) of an instant, as in 2026-11-26.
func DayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Add adds the time that a Service was observed until an instant. A length below 0 takes back what was added too early.
func (o *Observed) Add(at time.Time, service string, length time.Duration) {
	o.Until = at.UTC()
	if o.Days == nil {
		o.Days = map[string]map[string]time.Duration{}
	}
	day, oldest := DayOf(at), DayOf(at.AddDate(0, 0, 1-KeptDays))
	if o.Days[day] == nil {
		o.Days[day] = map[string]time.Duration{}
	}
	o.Days[day][service] = max(0, o.Days[day][service]+length)
	for day := range o.Days {
		if day < oldest {
			delete(o.Days, day)
		}
	}
}
