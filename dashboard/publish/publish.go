// Package publish puts a judged run under the keys that the page reads (docs/reference/stream.md).
package publish

import (
	"errors"
	"slices"
	"sort"
	"strconv"
	"time"

	"lapse/correlate/model"
)

// A Store holds JSON values under keys: [lapse/dashboard.Store].
type Store interface {
	Put(key string, value any) error
	Delete(key string)
}

// chunkSlots is how many slots of a target's series travel to the page together.
const chunkSlots = 20

// A Publisher keeps a store equal to a run's timeline. Only what may have changed since the last time is
// looked at again, so its cost does not grow with the run. It belongs to one goroutine.
type Publisher struct {
	store   Store
	failed  []error        // of this time
	events  int            // how many events were put
	windows int            // and windows
	width   time.Duration  // of the slots, as last put
	chunks  map[string]int // by target: the first chunk that may still change
}

// To returns a Publisher to a store that holds nothing of another run.
func To(store Store) *Publisher { return &Publisher{store: store, chunks: map[string]int{}} }

// Show makes the store hold the run as it stands at instant now. The error tells of values that the store did not take; all others it holds.
func (p *Publisher) Show(tl *model.Timeline, now time.Duration) error {
	p.failed = nil
	p.put("tool", tl.Tool)
	p.put("t0", tl.T0)
	p.put("run", tl.Run)
	p.put("verdict", tl.Verdict)
	p.put("unobserved", tl.Unobserved)
	p.put("incidents", tl.Incidents)
	p.put("services", tl.Services)
	if len(tl.Held) > 0 {
		p.put("held", heldWithoutCuts(tl.Held))
	}
	if len(tl.Sources) > 0 {
		p.put("sources", tl.Sources)
	}
	if len(tl.Routes) > 0 {
		p.put("routes", tl.Routes)
		p.put("late", tl.Late)
	}
	if tl.KeepServing != nil {
		p.put("keepServing", tl.KeepServing)
	}
	if tl.Scorecard != nil {
		p.put("scorecard", tl.Scorecard)
	}
	for _, t := range tl.Targets {
		p.put("target/"+t.Name, t)
	}
	for _, w := range tl.Windows {
		p.put("window/"+strconv.Itoa(w.ID), w)
	}
	for id := len(tl.Windows) + 1; id <= p.windows; id++ {
		p.store.Delete("window/" + strconv.Itoa(id))
	}
	p.windows = len(tl.Windows)
	if !tl.Run.Live {
		p.events = 0 // later events may have widened the brackets of earlier ones
	}
	for _, e := range tl.Events[min(p.events, len(tl.Events)):] {
		p.put("event/"+strconv.Itoa(int(e.ID)), e)
	}
	p.events = len(tl.Events)
	for _, pod := range tl.Pods {
		p.put("pod/"+pod.UID, pod)
	}
	p.showBuckets(tl)
	p.put("now", now)
	p.put("live", tl.Run.Live)
	return errors.Join(p.failed...)
}

// heldWithoutCuts are what became of held connections, without each single cut: the page shows windows of them, and there may be thousands.
func heldWithoutCuts(held []model.Held) []model.Held {
	brief := slices.Clone(held)
	for i := range brief {
		brief[i].Truncated += len(brief[i].List)
		brief[i].List = []model.HeldCut{}
	}
	return brief
}

func (p *Publisher) put(key string, value any) {
	if err := p.store.Put(key, value); err != nil {
		p.failed = append(p.failed, err)
	}
}

// A chunk is a part of a target's series.
type chunk struct {
	Start      int               `json:"start"` // index of the first slot
	Sent       []int             `json:"sent"`
	Failed     []int             `json:"failed"`
	Unobserved []float64         `json:"unobserved"`
	Latency    []model.Histogram `json:"latency"`

	Classes map[string]model.SparseCounts `json:"classes,omitzero"` // slots count from the beginning of the run
}

func (p *Publisher) showBuckets(tl *model.Timeline) {
	if tl.Buckets.Width != p.width {
		p.dropChunks(tl)
		p.width = tl.Buckets.Width
		p.put("bucketWidth", p.width)
	}
	for name, s := range tl.Buckets.All() {
		end := s.Start + len(s.Sent)
		last := max(0, end-1) / chunkSlots
		for c := max(p.chunks[name], s.Start/chunkSlots); c <= last && len(s.Sent) > 0; c++ {
			from, to := max(0, c*chunkSlots-s.Start), min((c+1)*chunkSlots, end)-s.Start
			p.put("bucket/"+name+"/"+strconv.Itoa(c), chunk{
				Start: s.Start + from, Sent: s.Sent[from:to], Failed: s.Failed[from:to],
				Unobserved: s.Unobserved[from:to], Latency: s.Latency[from:to],
				Classes: classesWithin(s.Classes, s.Start+from, s.Start+to),
			})
		}
		if tl.Run.Live {
			p.chunks[name] = p.firstOpenChunk(tl, last)
		}
	}
}

// classesWithin are the failures by class of the slots from one to another.
func classesWithin(classes map[string]model.SparseCounts, from, to int) map[string]model.SparseCounts {
	var within map[string]model.SparseCounts
	for class, pairs := range classes {
		i, j := 2*firstPair(pairs, from), 2*firstPair(pairs, to)
		if i == j {
			continue
		}
		if within == nil {
			within = map[string]model.SparseCounts{}
		}
		within[class] = pairs[i:j]
	}
	return within
}

// firstPair is the index of the first pair whose slot is not below this one.
func firstPair(pairs model.SparseCounts, slot int) int {
	return sort.Search(len(pairs)/2, func(i int) bool { return pairs[2*i] >= slot })
}

// firstOpenChunk returns the first chunk that requests still open may change: a request is open for
// the timeout at most, to which we add as much again.
func (p *Publisher) firstOpenChunk(tl *model.Timeline, last int) int {
	slots := int(2*tl.Run.Timeout/p.width) + 2
	return max(0, last-(slots+chunkSlots-1)/chunkSlots)
}

// dropChunks forgets all series, because the slots have another width now.
func (p *Publisher) dropChunks(tl *model.Timeline) {
	for name, open := range p.chunks {
		series, _ := tl.Buckets.Of(name)
		for c := 0; c <= open+(series.Start+len(series.Sent))/chunkSlots+3; c++ {
			p.store.Delete("bucket/" + name + "/" + strconv.Itoa(c))
		}
	}
	clear(p.chunks)
}
