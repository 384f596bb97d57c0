package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/report"
	"lapse/timeline"
)

// chunkSlots is how many slots of a target's series travel to the page together.
const chunkSlots = 20

// A page keeps a dashboard's store equal to a run's timeline. Only what may have changed since the
// last time is looked at again, so its cost does not grow with the run.
type page struct {
	store  *dashboard.Store
	latest atomic.Pointer[model.Timeline] // what timeline.json is downloaded from

	events  int // how many events were put
	windows int
	width   time.Duration  // of the slots, as last put
	chunks  map[string]int // by target: the first chunk that may still change

	mu       sync.Mutex
	lookers  int           // how many look at it now
	lastLook time.Time     // when one of them last stopped
	shownAt  time.Time     // when it was last renewed
	final    bool          // nothing will be renewed any more
	renewed  chan struct{} // closed, and replaced, when it is renewed
}

func newPage() *page {
	return &page{store: dashboard.NewStore(), chunks: map[string]int{}, renewed: make(chan struct{})}
}

const (
	lookAgain = 5 * time.Second // who has looked may look again: for so long the page is kept up to date
	renewing  = time.Second     // who begins to look waits no longer for it to be
)

// look notes that somebody looks, until stopped is called, and waits until the page is up to date.
func (p *page) look(ctx context.Context) (stopped func()) {
	p.mu.Lock()
	p.lookers++
	renewed, stale := p.renewed, !p.final && time.Since(p.shownAt) > 2*refresh
	p.mu.Unlock()
	if stale {
		select {
		case <-renewed:
		case <-ctx.Done():
		case <-time.After(renewing):
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lookers--
		p.lastLook = time.Now()
	}
}

// isLookedAt reports whether the page is to be kept up to date: somebody looks, or may again. What nobody looks at takes no CPU
// from the prober.
func (p *page) isLookedAt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookers > 0 || !p.lastLook.IsZero() && time.Since(p.lastLook) < lookAgain
}

// noteShown notes that the page was renewed.
func (p *page) noteShown(final bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shownAt, p.final = time.Now(), final
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// options let the page offer timeline.json, as it is at that moment.
func (p *page) options() dashboard.Options {
	return dashboard.Options{Looked: p.look, Timeline: func(w io.Writer) error {
		tl := p.latest.Load()
		if tl == nil {
			return errors.New("nothing was measured yet")
		}
		return report.JSON(w, tl, report.Options{})
	}}
}

func (p *page) handler() http.Handler { return dashboard.Handler(p.store, p.options()) }

// A page shows the whole run while somebody looks at it, and no single facts.

func (p *page) Fact(timeline.Fact) {}

func (p *page) Wants() Detail {
	if p.isLookedAt() {
		return All
	}
	return Seldom
}

func (p *page) Judged(j Judgement) {
	if j.All && p.isLookedAt() {
		p.Show(j.Timeline, j.Now)
	}
}

func (p *page) Close(tl *model.Timeline) {
	if tl != nil {
		p.Show(tl, tl.Run.Duration)
	}
}

// Show makes the page show tl. One goroutine at a time may call it.
func (p *page) Show(tl *model.Timeline, now time.Duration) {
	p.latest.Store(tl)
	p.put("tool", tl.Tool)
	p.put("t0", tl.T0)
	p.put("run", tl.Run)
	p.put("verdict", tl.Verdict)
	p.put("unobserved", tl.Unobserved)
	p.put("incidents", tl.Incidents)
	p.put("services", tl.Services)
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
	p.noteShown(!tl.Run.Live)
}

// put shows value under key. A value that cannot be encoded is missing on the page, and the log says so.
func (p *page) put(key string, value any) {
	if err := p.store.Put(key, value); err != nil {
		slog.Warn("the page lacks a value", "error", err)
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

func (p *page) showBuckets(tl *model.Timeline) {
	if tl.Buckets.Width != p.width {
		p.dropChunks(tl)
		p.width = tl.Buckets.Width
		p.put("bucketWidth", p.width)
	}
	for name, s := range tl.Buckets.Targets {
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
func (p *page) firstOpenChunk(tl *model.Timeline, last int) int {
	slots := int(2*tl.Run.Timeout/p.width) + 2
	return max(0, last-(slots+chunkSlots-1)/chunkSlots)
}

// dropChunks forgets all series, because the slots have another width now.
func (p *page) dropChunks(tl *model.Timeline) {
	for name, open := range p.chunks {
		for c := 0; c <= open+(tl.Buckets.Targets[name].Start+len(tl.Buckets.Targets[name].Sent))/chunkSlots+3; c++ {
			p.store.Delete("bucket/" + name + "/" + strconv.Itoa(c))
		}
	}
	clear(p.chunks)
}
