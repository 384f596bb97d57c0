// Package correlate judges a run: from the facts it makes the document that reports and the page show
// ([model.Timeline]). [Analyze] judges a recording, a [Tracker] a run that goes on; both say the same.
//
//	facts ─> windows ─> causes ─> the judged document ─> verdict, compare
//	     └─> cluster ──┘
package correlate

import (
	"strconv"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Options say how a run is judged.
type Options struct {
	Join time.Duration // runs of failures less than this apart are one window; 0: as the run was asked to
	// a success that took longer is slow; 0: as the run was asked to, else measured against the target's first answers
	Slow time.Duration

	Resolution  time.Duration // a gap between sends that is no longer is no hole; 0: as the run was asked to
	MinCoverage float64       // the share of time that must have been observed for a pass; 0: as the run was asked to

	MinNodeCoverage *float64 // the share that each node of --from must have observed; nil: as the run was asked to
}

// A Tracker judges a run while its facts arrive. What it says of the past is what [Analyze] will
// say of the whole run; what newer facts may still change is marked live.
//
// A Tracker is not safe for concurrent use; the Timelines it returns are never changed again.
type Tracker struct {
	settings
	sourceFacts
	tracks
	runState
	losses losses
	held   heldFacts
	events events
	places places
	slots  slots

	listed   []model.Failure // as last published
	listedOf int             // how many requests had failed then
	listedBy int             // how often clocks had been compared then
}

// tracks are the run's targets.
type tracks struct {
	targets map[timeline.TargetID]*track
	order   []timeline.TargetID          // IDs in the order of the record
	named   map[string]timeline.TargetID // the latest of each name
	early   map[string]measuredTime      // by name, of targets that are not known yet
	alike   map[sends]int                // the number that targets which send this have
}

// NewTracker returns a Tracker that knows nothing.
func NewTracker(o Options) *Tracker {
	return &Tracker{
		settings:    settings{opts: o},
		sourceFacts: newSourceFacts(),
		tracks: tracks{
			targets: map[timeline.TargetID]*track{},
			named:   map[string]timeline.TargetID{},
			early:   map[string]measuredTime{},
			alike:   map[sends]int{},
		},
		losses: newLosses(),
		held:   newHeldFacts(),
	}
}

// SetEnd says how far time has come, so that a silence shows as unobserved time. Time does not go
// back.
func (t *Tracker) SetEnd(now time.Duration) { t.now = max(t.now, now) }

// Add takes in the next fact. Requests may come in any order as long as each comes before a
// watermark later than its Due; a target comes before its requests.
func (t *Tracker) Add(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Meta:
		t.meta = f
	case timeline.Source:
		t.sources[f.ID] = f
	case timeline.Sync:
		t.clocks.Add(f)
	case timeline.Target:
		t.addTarget(f)
	case timeline.Backend:
		t.addBackend(f)
	case timeline.Peer:
		t.peers[peerKey{f.Source, f.ID}] = f.Addr.String()
		t.held.addPeer(f)
	case timeline.Batch:
		t.addBatch(f)
	case timeline.HeldBatch:
		t.addHeld(f)
	case timeline.Event:
		t.addEvent(f)
	}
}

func (t *Tracker) addTarget(target timeline.Target) {
	if tr := t.targets[target.ID]; tr != nil {
		tr.target, tr.source, tr.alike = target, t.reachedBy(target.Source), t.alikeTo(target)
		tr.changes++
		t.name(tr)
		return
	}
	tr := newTrack(target, Options{Join: t.join(), Slow: t.slow(), Resolution: t.resolution()},
		t.meta.Options.Baseline, t.sources[target.Source].Role == timeline.Prober)
	tr.series.width, tr.source, tr.alike = t.slots.width, t.reachedBy(target.Source), t.alikeTo(target)
	t.targets[target.ID] = tr
	t.order = append(t.order, target.ID)
	t.name(tr)
}

// name lets events that name a target find its track, and takes over those that came before it.
func (t *tracks) name(tr *track) {
	name := tr.target.Name
	t.named[name] = tr.target.ID
	if m, ok := t.early[name]; ok {
		tr.measuredTime = m
		delete(t.early, name)
	}
}

func (t *Tracker) addBatch(b timeline.Batch) {
	t.losses.addBatch(b)
	var tr *track
	for i := range b.Requests {
		r := &b.Requests[i]
		if tr == nil || tr.target.ID != r.Target {
			if t.targets[r.Target] == nil {
				t.addTarget(timeline.Target{ID: r.Target})
			}
			tr = t.targets[r.Target]
		}
		tr.add(*r)
		tr.source.reach(r.Done, true)
	}
	for _, w := range b.Watermarks {
		if tr := t.targets[w.Target]; tr != nil {
			tr.passed(w.Due)
			tr.source.reach(w.Due, true)
		}
	}
}

func (t *Tracker) addEvent(e timeline.Event) {
	if gap, lost := t.losses.before(e, t.clocks.Shared(e.Source)); lost {
		t.events.add(gap)
	}
	t.events.add(e)
	t.reachedBy(e.Source).reach(e.Seen, !fromWorkstation(e))
	switch e.Kind {
	case timeline.RunPhase:
		if e.Enters(timeline.PhaseEnded) {
			ended := e // only this one is allocated
			t.ended = &ended
		}
	case timeline.TargetChanged:
		t.targetChanged(e)
	case timeline.RateChanged:
		t.rateChanged(e)
	case timeline.ProberStall:
		t.stalls[e.Source] = append(t.stalls[e.Source], windows.Period{From: e.Since, To: e.Seen,
			Reason: model.ReasonStalled})
	case timeline.Command:
		t.commandChanged(e)
	case timeline.Hammer:
		t.hammerChanged(e)
	}
}

func (t *tracks) targetChanged(e timeline.Event) {
	name, at := e.Object.Name, &moment{e.Source, e.Seen}
	tr := t.targets[t.named[name]]
	switch {
	case tr == nil && e.To == "measuring":
		t.early[name] = measuredTime{began: at}
	case tr == nil && e.To == "ended":
		t.early[name] = measuredTime{t.early[name].began, at}
	case e.To == "measuring":
		if tr.ended = nil; tr.tally.due == 0 {
			tr.began = at
		}
		tr.changes++
	case e.To == "ended":
		tr.ended = at
		tr.rest()
	}
}

// rateChanged takes in that a target is asked at another rate.
func (t *Tracker) rateChanged(e timeline.Event) {
	tr, known := t.targets[t.named[e.Object.Name]]
	rate, err := strconv.ParseFloat(e.To, 64)
	changed := timeline.Target{Rate: rate}
	if !known || err != nil || rate <= 0 || timeline.Check(changed) != nil {
		return
	}
	tr.rerate(rate, t.on(tr.target.Source, moment{e.Source, e.Seen}), t.join())
}

// longestGap is for how long an end of the record leaves open whether the watches went on: as long as an unbroken one
// may be late.
const longestGap = cluster.WatchLag
