// Package publish puts a judged run under the keys that the page reads (docs/reference/stream.md).
package publish

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Store holds JSON values under keys: [lapse/dashboard.Store].
type Store interface {
	// Apply deletes these keys and then puts these values, in one step.
	Apply(deleted []string, values map[string]any) error

	// Detail sets what else can be asked for: values of keys that the state does not hold, by the name of a part of
	// the run. It may be called from any goroutine.
	Detail(of func(part string) map[string]any)
}

// chunkSlots is how many slots of a target's series travel to the page together.
const chunkSlots = 20

// A Publisher keeps a store equal to a run's timeline. Only what may have changed since the last time is
// looked at again, so its cost does not grow with the run. It belongs to one goroutine.
type Publisher struct {
	store   Store
	deleted []string       // what this time deletes
	values  map[string]any // and then puts
	events  int            // how many events were put
	windows int            // and windows
	width   time.Duration  // of the slots, as last put
	chunks  map[string]int // by target, or by group if there are many: the first chunk that may still change
	targets int            // how many targets are sent; those of a run with more are asked for
	many    bool           // there are more
}

// To returns a Publisher to a store that holds nothing of another run.
func To(store Store) *Publisher {
	return &Publisher{store: store, chunks: map[string]int{}, targets: few}
}

// Whole makes p send up to so many targets whole, instead of 200.
func (p *Publisher) Whole(targets int) *Publisher {
	p.targets = targets
	return p
}

// Show makes the store hold the run as it stands at instant now, in one step: no viewer sees a part of it.
// The error tells of values that the store did not take; all others it holds.
func (p *Publisher) Show(tl *model.Timeline, now time.Duration) error {
	p.deleted, p.values = nil, map[string]any{}
	p.put("tool", tl.Tool)
	p.put("t0", tl.T0)
	p.put("run", tl.Run)
	p.put("verdict", tl.Verdict)
	p.put("said", tl.Said)
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
	if tl.ControlPlane != nil {
		p.put("controlPlane", tl.ControlPlane)
	}
	if tl.KeepServing != nil {
		p.put("keepServing", tl.KeepServing)
	}
	if tl.Scorecard != nil {
		p.put("scorecard", tl.Scorecard)
	}
	p.showTargets(tl)
	for _, w := range tl.Windows {
		p.put("window/"+strconv.Itoa(w.ID), w)
	}
	for id := len(tl.Windows) + 1; id <= p.windows; id++ {
		p.delete("window/" + strconv.Itoa(id))
	}
	p.windows = len(tl.Windows)
	if !tl.Run.Live {
		p.events = 0 // later events may have widened the brackets of earlier ones
	}
	for _, e := range tl.Events[min(p.events, len(tl.Events)):] {
		p.showEvent(e)
	}
	p.events = len(tl.Events)
	for _, pod := range tl.Pods {
		p.put("pod/"+pod.UID, pod)
	}
	p.put("now", now)
	p.put("live", tl.Run.Live)
	return p.store.Apply(p.deleted, p.values)
}

// showEvent shows an event. Of a run with many targets, it leaves out what grows with them, and what the page does
// not show.
func (p *Publisher) showEvent(e model.Event) {
	if p.many && e.Kind == timeline.TargetChanged {
		return
	}
	if p.many {
		e.Snapshot = nil
	}
	p.put("event/"+strconv.Itoa(int(e.ID)), e)
}

// showTargets shows the targets and their series, or groups of them if they are many.
func (p *Publisher) showTargets(tl *model.Timeline) {
	if !p.many && len(tl.Targets) > p.targets {
		p.dropTargets(tl)
		p.many = true
	}
	if p.many {
		p.showGroups(tl)
		return
	}
	p.put("unobserved", tl.Unobserved)
	for _, t := range tl.Targets {
		p.put("target/"+t.Name, t)
	}
	p.showBuckets(tl)
}

// dropTargets deletes what was sent while there were few targets.
func (p *Publisher) dropTargets(tl *model.Timeline) {
	p.dropChunks(tl)
	p.delete("unobserved")
	for _, t := range tl.Targets {
		p.delete("target/" + t.Name)
	}
	for _, e := range tl.Events[:min(p.events, len(tl.Events))] {
		if e.Kind == timeline.TargetChanged {
			p.delete("event/" + strconv.Itoa(int(e.ID)))
		}
	}
	p.events = 0 // the others come anew, without what the state leaves out
}

// showGroups shows groups of targets instead of these.
func (p *Publisher) showGroups(tl *model.Timeline) {
	groups := groupsOf(tl)
	judge(groups, tl)
	names := make([]string, len(groups))
	of := map[string]*worst{}
	all := &worst{}
	series := map[string]*worst{"": all}
	for i, g := range groups {
		p.put("group/"+g.Name, g.Group)
		names[i] = g.Name
		w := &worst{}
		series[g.Name] = w
		for _, t := range g.members {
			of[t.Name] = w
		}
	}
	for name, s := range tl.Buckets.All() {
		if w := of[name]; w != nil {
			w.add(s)
			all.add(s)
		}
	}
	p.put("counts", countsOf(tl))
	p.put("notMeasured", notMeasured(tl))
	if tl.Buckets.Width != p.width {
		p.dropTogether()
		p.width = tl.Buckets.Width
		p.put("bucketWidth", p.width)
	}
	for name, w := range series {
		p.showTogether(tl, name, w)
	}
	p.store.Detail(details(tl, groups))
}

// Counts say how many targets there are, and how long one of them was not observed.
type Counts struct {
	Judged int `json:"judged"`
	// of the others: each endpoint's own, and the probers' controls
	Evidence     int `json:"evidence"`
	Unobserved   int `json:"unobserved"`   // stretches in which a judged target was not observed
	TargetEvents int `json:"targetEvents"` // events of kind "target", which the state leaves out
}

func countsOf(tl *model.Timeline) Counts {
	c := Counts{Unobserved: len(tl.Unobserved)}
	for i := range tl.Targets {
		if tl.Targets[i].Kind.Judged() {
			c.Judged++
		} else {
			c.Evidence++
		}
	}
	for i := range tl.Events {
		if tl.Events[i].Kind == timeline.TargetChanged {
			c.TargetEvents++
		}
	}
	return c
}

// showTogether shows what the targets of a group show in one row, "" for all judged ones.
func (p *Publisher) showTogether(tl *model.Timeline, name string, w *worst) {
	last := max(0, len(w.share)-1) / chunkSlots
	for c := p.chunks[name]; c <= last && len(w.share) > 0; c++ {
		p.put("together/"+name+"/"+strconv.Itoa(c), w.part(c*chunkSlots, min((c+1)*chunkSlots, len(w.share))))
	}
	if tl.Run.Live {
		p.chunks[name] = p.firstOpenChunk(tl, last)
	}
}

// dropTogether forgets all series of groups, because the slots have another width now.
func (p *Publisher) dropTogether() {
	for name, open := range p.chunks {
		for c := 0; c <= open+maxOpenChunks; c++ {
			p.delete("together/" + name + "/" + strconv.Itoa(c))
		}
	}
	clear(p.chunks)
}

// maxOpenChunks is more chunks than lie between the first that may change and the last.
const maxOpenChunks = 100

// Names of parts that can be asked for: the targets of a group, those that are evidence, one target's series.
const (
	membersPart  = "members/"
	evidencePart = "evidence"
	seriesPart   = "series/"
)

// details says what can be asked for of a run with many targets: what a state of fewer holds.
func details(tl *model.Timeline, groups []*grouped) func(part string) map[string]any {
	return func(part string) map[string]any {
		values := map[string]any{"bucketWidth": tl.Buckets.Width}
		name, ofGroup := strings.CutPrefix(part, membersPart)
		target, ofSeries := strings.CutPrefix(part, seriesPart)
		switch {
		case part == evidencePart:
			for i := range tl.Targets {
				if t := &tl.Targets[i]; !t.Kind.Judged() {
					values["target/"+t.Name] = t
				}
			}
		case ofGroup:
			addMembers(values, tl, groups, name)
		case ofSeries:
			if s, known := tl.Buckets.Of(target); known && len(s.Sent) > 0 {
				values["bucket/"+target+"/0"] = chunk{
					Start:      s.Start,
					Sent:       s.Sent,
					Failed:     s.Failed,
					Unobserved: s.Unobserved,
					Latency:    s.Latency,
					Classes:    s.Classes,
				}
			}
		}
		return values
	}
}

// addMembers adds the targets of a group, their order, and when each was not observed.
func addMembers(values map[string]any, tl *model.Timeline, groups []*grouped, name string) {
	at := slices.IndexFunc(groups, func(g *grouped) bool { return g.Name == name })
	if at < 0 {
		return
	}
	names, blank := []string{}, map[string][]model.Unobserved{}
	for _, t := range groups[at].members {
		values["target/"+t.Name] = t
		names, blank[t.Name] = append(names, t.Name), []model.Unobserved{}
	}
	for _, u := range tl.Unobserved {
		if of, own := blank[u.Target]; own {
			blank[u.Target] = append(of, u)
		}
	}
	for target, list := range blank {
		values["unobserved/"+target] = list
	}
	values["members/"+name] = names
}

// heldWithoutCuts are what became of held connections, without each single cut: the page shows windows of them, and
// there may be thousands.
func heldWithoutCuts(held []model.Held) []model.Held {
	brief := slices.Clone(held)
	for i := range brief {
		brief[i].Truncated += len(brief[i].List)
		brief[i].List = []model.HeldCut{}
	}
	return brief
}

func (p *Publisher) put(key string, value any) { p.values[key] = value }

func (p *Publisher) delete(key string) { p.deleted = append(p.deleted, key) }

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
			p.delete("bucket/" + name + "/" + strconv.Itoa(c))
		}
	}
	clear(p.chunks)
}
