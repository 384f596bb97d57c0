package correlate

import (
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// mostFailedAddresses is how many are noted per target: a name's addresses may change all the time.
const mostFailedAddresses = 8

// sameCount is how far apart the events of one count may place its beginning, as clocks are compared meanwhile. Another
// count begins more than 5 s later.
const sameCount = time.Second

// noteFailedAddresses tells each target which addresses of its name failed before another one answered. Each event has
// its count so far, so the last one of each count stands; one that begins later is of another count, and adds to it.
func noteFailedAddresses(tl *model.Timeline) {
	type which struct {
		target      int
		addr, class string
	}
	last := map[which]*model.Event{}
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != timeline.AddressFailed {
			continue
		}
		t := slices.IndexFunc(tl.Targets, func(t model.Target) bool { return t.Name == e.Object.Name })
		if t < 0 {
			continue
		}
		failed := model.FailedAddress{
			Addr:        e.Addr.String(),
			Class:       e.To,
			Text:        e.Detail,
			Connections: e.Count,
			During:      e.At,
		}
		of := which{t, failed.Addr, failed.Class}
		before := last[of]
		last[of] = e
		list := &tl.Targets[t].FailedAddresses
		known := slices.IndexFunc(*list, func(f model.FailedAddress) bool {
			return f.Addr == failed.Addr && f.Class == failed.Class
		})
		switch {
		case known < 0 && len(*list) < mostFailedAddresses:
			*list = append(*list, failed)
		case known >= 0:
			f := &(*list)[known]
			if e.At.Earliest-before.At.Earliest < sameCount {
				f.Connections -= before.Count
			}
			f.Connections += e.Count
			f.During = model.Instant{
				Earliest: min(f.During.Earliest, failed.During.Earliest),
				Latest:   max(f.During.Latest, failed.During.Latest),
			}
		}
	}
}
