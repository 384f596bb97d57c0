package correlate

import (
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// noteFailedAddresses tells each target which addresses of its name failed before another one answered: each event
// has the count so far, so the last one of each address and class stands.
func noteFailedAddresses(tl *model.Timeline) {
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
		list := &tl.Targets[t].FailedAddresses
		known := slices.IndexFunc(*list, func(f model.FailedAddress) bool {
			return f.Addr == failed.Addr && f.Class == failed.Class
		})
		if known < 0 {
			*list = append(*list, failed)
		} else {
			(*list)[known] = failed
		}
	}
}
