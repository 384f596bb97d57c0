package flagger

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// mostRollouts is how many Canaries are known. Of more, those whose rollout began first are forgotten.
const mostRollouts = 1000

// rollouts are those that go on, by NAMESPACE/NAME of the Canary. The zero value has none.
type rollouts map[string]rollout

// A rollout is one of a Canary.
type rollout struct {
	since time.Time // when it began; if that was not seen, when it was first seen
	whole bool      // its beginning was seen
	// checksum is that of what is rolled out; empty: not known yet, for as a rollout begins Flagger has the one before.
	checksum string
}

func (all *rollouts) begin(canary string, r rollout) {
	if *all == nil {
		*all = rollouts{}
	}
	if _, known := (*all)[canary]; !known && len(*all) >= mostRollouts {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(*all)), func(a, b string) int {
			return (*all)[a].since.Compare((*all)[b].since)
		})
		delete(*all, oldest)
	}
	(*all)[canary] = r
}

// of returns the rollout of a Canary to what has a checksum. Another one than before is a rollout whose beginning was
// not seen: an event was lost, or the guard was restarted.
func (all *rollouts) of(canary, checksum string, now time.Time) rollout {
	r, known := (*all)[canary]
	if !known || r.checksum != "" && r.checksum != checksum {
		r = rollout{since: now}
	}
	r.checksum = checksum
	all.begin(canary, r)
	return r
}

func (p payload) canary() string { return p.Namespace + "/" + p.Name }

// begins reports whether an event begins a rollout, or begins it again with another version. Only the text of Flagger's
// event says so (pkg/controller/scheduler.go). If it ever changes, no rollout passes: its beginning is not known.
func (p payload) begins() bool {
	return strings.HasPrefix(p.Metadata["eventMessage"], "New revision detected!")
}

// phases are those of a Canary (pkg/apis/flagger/v1beta1/status.go).
var phases = []string{
	"", "Initializing", "Initialized", "Waiting", "Progressing", "WaitingPromotion", "Promoting", "Finalising",
	"Succeeded", "Failed", "Terminating", "Terminated",
}

// changes reports whether Pods and routes change in the phase, or may soon.
func (p payload) changes() bool {
	return slices.Contains([]string{"Progressing", "Promoting", "Finalising"}, p.Phase)
}

// ends reports whether no rollout goes on in the phase.
func (p payload) ends() bool {
	return slices.Contains([]string{"Initialized", "Succeeded", "Failed", "Terminating", "Terminated"}, p.Phase)
}
