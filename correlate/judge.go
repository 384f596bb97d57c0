package correlate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lapse/correlate/causes"
	"lapse/correlate/causes/evidence"
	"lapse/correlate/cluster"
	"lapse/correlate/incidents"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file makes the judged document from what a [Tracker] has taken in.

// Timeline returns the run as it is known now.
func (t *Tracker) Timeline() *model.Timeline {
	tl, snapshots := t.judge()
	tl.Buckets = t.slots.buckets(snapshots, &t.sourceFacts)
	return tl
}

// Last returns the whole run, to which no more facts are added. Its series are made when they are asked for, by one
// goroutine at a time: see [model.MadeWhenAsked].
func (t *Tracker) Last() *model.Timeline {
	tl, snapshots := t.judge()
	of, width, n := map[string]*snapshot{}, t.slots.width, t.slots.count(snapshots, &t.sourceFacts)
	for _, s := range snapshots {
		of[s.target.Name] = s
	}
	tl.Buckets = model.MadeWhenAsked(width, slices.Collect(maps.Keys(of)), func(name string) model.BucketSeries {
		return t.slots.series(of[name], n, &t.sourceFacts)
	})
	return tl
}

// Brief returns the run as it is known now, without its buckets: they are most of a long run's Timeline,
// and a terminal that follows the run does not show them.
func (t *Tracker) Brief() *model.Timeline {
	tl, _ := t.judge()
	return tl
}

// judge returns all of a Timeline but its buckets, and what those are made of.
func (t *Tracker) judge() (*model.Timeline, []*snapshot) {
	tl := &model.Timeline{
		SchemaVersion: model.SchemaVersion,
		Tool:          model.Tool{Name: "lapse", Version: t.meta.Tool},
		T0:            t.meta.T0,
		Run:           t.runInfo(),
		Targets:       []model.Target{},
		Incidents:     []model.Incident{},
		Windows:       []model.Window{},
		Unobserved:    []model.Unobserved{},
		Failures:      []model.Failure{},
		Events:        t.place(),
		Pods:          []model.Pod{},
		Verdict:       model.Verdict{Reasons: []string{}, Gates: []model.GateResult{}},
		Hammer:        t.hammer,
	}
	snapshots := t.snapshots()
	t.slots.widen(snapshots, &t.sourceFacts)
	s := &evidence.Input{Run: tl, Probed: make(map[timeline.TargetID]*evidence.Probed, len(snapshots)),
		Cuts: map[timeline.TargetID][]model.HeldCut{}, Answered: t.answered}
	t.fill(s, snapshots)
	t.judgeHeld(s, snapshots)
	noteFailedAddresses(tl)
	tl.Sources = t.publishSources(snapshots)
	tl.Services = cluster.Services(tl.Events)
	tl.Pods = cluster.Lifecycles(tl, func(id timeline.TargetID) windows.FirstLast { return s.Probed[id].FirstLast })
	causes.Explain(s)
	tl.Routes = t.routes(tl, snapshots)
	addLost(tl.Pods, tl.Routes)
	addWaited(tl.Pods, tl.Routes)
	tl.Late = lateRoutes(tl.Routes, tl.Sources, tl.Run.SyncPeriod())
	tl.DNS = dnsOf(tl.Events, t.end())
	tl.ControlPlane = t.controlPlane(tl, snapshots)
	tl.KeepServing = keepServing(tl)
	tl.Incidents = incidents.Of(tl, t.join())
	return tl, snapshots
}

// snapshots reads every track to its end and settles what time was observed.
func (t *Tracker) snapshots() []*snapshot {
	snapshots := make([]*snapshot, 0, len(t.order))
	runEnd := t.end()
	ends := map[timeline.SourceID]time.Duration{}
	for _, id := range t.order {
		tr := t.targets[id]
		source := tr.target.Source
		end, known := ends[source]
		if !known {
			end = t.clocks.From(source, runEnd)
			ends[source] = end
		}
		stop := end
		if tr.ended != nil {
			stop = t.on(source, *tr.ended)
		}
		s := t.snapshotOf(tr, min(stop, end))
		if s.tally.due == 0 {
			s.measured = windows.Period{To: stop}
			if tr.began != nil {
				s.measured.From = t.on(source, *tr.began)
			}
			s.tail = []windows.Period{{From: s.measured.From, To: s.measured.To, Reason: model.ReasonNotSent}}
		}
		snapshots = append(snapshots, s)
	}
	// by each source's own control target
	slow, failed := map[timeline.SourceID][]windows.Period{}, map[timeline.SourceID][]windows.Period{}
	for _, s := range snapshots {
		slow[s.target.Source] = append(slow[s.target.Source], s.reading.Stalls...)
		failed[s.target.Source] = append(failed[s.target.Source], s.reading.Faults...)
	}
	for _, s := range snapshots {
		stalls, faults := slow[s.target.Source], failed[s.target.Source]
		s.unobserved, s.unsure = s.reading.Unobserved(s.measured, s.tail, t.stalls[s.target.Source], stalls,
			slices.Concat(faults, t.losses.of(s.target, s.measured)))
	}
	return snapshots
}

// fill publishes what was seen of the targets.
func (t *Tracker) fill(s *evidence.Input, snapshots []*snapshot) {
	tl := s.Run
	tl.Targets = make([]model.Target, 0, len(snapshots))
	for _, snapshot := range snapshots {
		p := t.publish(snapshot)
		tl.Targets = append(tl.Targets, p.target)
		s.Probed[snapshot.target.ID] = &p.Probed
		if !snapshot.target.Kind.Judged() {
			continue
		}
		tl.Windows = append(tl.Windows, p.Outages...)
		for _, d := range t.aligned(snapshot.target.Source).periods(snapshot.unobserved) {
			if proberLost(tl, p.target.Node, d) {
				d.Reason = model.ReasonGone
			}
			tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: snapshot.target.Name, Start: d.From,
				End: d.To, Reason: d.Reason})
		}
	}
	slices.SortStableFunc(tl.Windows, func(a, b model.Window) int {
		return cmp.Or(cmp.Compare(a.Start.Earliest, b.Start.Earliest), cmp.Compare(a.Start.Latest, b.Start.Latest))
	})
	for i := range tl.Windows {
		tl.Windows[i].ID = i + 1
	}
	t.shareCoverage(tl, snapshots)
	tl.Failures, tl.FailuresTruncated = t.failures(snapshots)
}

// proberLost reports whether nothing came in a period because the prober on the node was lost.
func proberLost(tl *model.Timeline, node string, d windows.Period) bool {
	return (d.Reason == model.ReasonEnded || d.Reason == model.ReasonNotSent) &&
		slices.ContainsFunc(tl.Events, func(e model.Event) bool {
			return e.Kind == timeline.ProberChanged && e.To == "lost" && e.Object.Name == node &&
				d.From <= e.At.Latest && e.At.Earliest <= d.To
		})
}

// failures lists the failures of judged targets by Sent, as many as fit, and counts the others.
func (t *Tracker) failures(snapshots []*snapshot) (list []model.Failure, truncated int) {
	failed := 0
	for _, s := range snapshots {
		if s.target.Kind.Judged() {
			failed += s.tally.failed()
		}
	}
	if t.listed == nil || failed != t.listedOf || t.clocks.Len() != t.listedBy {
		t.listed, t.listedOf, t.listedBy = t.listFailures(snapshots), failed, t.clocks.Len()
	}
	return slices.Clip(t.listed), failed - len(t.listed)
}

func (t *Tracker) listFailures(snapshots []*snapshot) []model.Failure {
	var all []timeline.Request
	for _, s := range snapshots {
		if s.target.Kind.Judged() {
			s.tally.trim()
			all = append(all, s.tally.failures...)
		}
	}
	sortBySent(all)
	list := make([]model.Failure, min(len(all), maxFailures))
	for i := range list {
		target := &t.targets[all[i].Target].target
		list[i] = t.aligned(target.Source).failure(windows.Failure(all[i], target.Name, t.backends[target.Source],
			t.peerOf(target, all[i].Peer)))
	}
	slices.SortStableFunc(list, func(a, b model.Failure) int { return cmp.Compare(a.Sent, b.Sent) })
	return list
}

// answered counts what a target answered between two instants of the run.
func (t *Tracker) answered(target timeline.TargetID, from, to time.Duration) (answered, sent int) {
	tr := t.targets[target]
	if tr == nil {
		return 0, 0
	}
	return tr.series.answered(t.clocks.From(tr.target.Source, from), t.clocks.From(tr.target.Source, to))
}

func (t *Tracker) runInfo() model.RunInfo {
	m := t.meta
	info := model.RunInfo{
		ID: m.ID, Spec: m.Spec, Services: m.Services, SetAside: m.SetAside, URLs: m.URLs,
		Duration: t.end(), Planned: t.planned(), Baseline: m.Options.Baseline, Settle: m.Options.Settle,
		Timeout: m.Options.Timeout,
		Join:    t.join(), Slow: t.slow(), Resolution: t.resolution(), MinCoverage: t.minCoverage(),
		MinNodeCoverage: cmp.Or(t.opts.MinNodeCoverage, m.Options.MinNodeCoverage), Live: t.live(),
	}
	if m.Cluster != (timeline.Cluster{}) {
		info.Cluster = new(m.Cluster)
	}
	if t.command != nil || len(m.Command) > 0 {
		info.Command = &model.Command{}
		if t.command != nil {
			*info.Command = *t.command
		}
		// In the cluster, the Pod learns the command's words only when it starts.
		if len(m.Command) > 0 || info.Command.Args == nil {
			info.Command.Args = append([]string{}, m.Command...)
		}
	}
	switch {
	case t.ended != nil:
		info.Aborted = cmp.Or(t.ended.Detail, t.damage)
	case t.closed:
		info.Truncated = true
		info.Aborted = cmp.Or(t.damage, "the recording ends there: Lapse was killed, or the run goes on")
	}
	return info
}
