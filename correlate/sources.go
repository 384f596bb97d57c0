package correlate

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/align"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Every source's requests are judged on its own clock. This file places what is published of them on the run's clock;
// of a source that has the run's clock, nothing changes.

// sourceFacts are the run's sources, and what each of them stated of itself.
type sourceFacts struct {
	sources    map[timeline.SourceID]timeline.Source
	backends   map[timeline.SourceID][]string // by ID; 0 is unknown
	peers      map[peerKey]string
	stalls     map[timeline.SourceID][]windows.Period
	clocks     align.Clocks
	alignments alignedBy
	reached    map[timeline.SourceID]*reached
	now        time.Duration // how far time has come, as SetEnd says
}

func newSourceFacts() sourceFacts {
	return sourceFacts{
		sources:  map[timeline.SourceID]timeline.Source{},
		backends: map[timeline.SourceID][]string{},
		peers:    map[peerKey]string{},
		stalls:   map[timeline.SourceID][]windows.Period{},
		reached:  map[timeline.SourceID]*reached{},
	}
}

// reached is how far a source's own facts have come, on its clock: at all, and by what only its process can have
// stated.
type reached struct{ now, sign time.Duration }

// reach notes how far the facts have come. sign tells that only the source's process can have stated it.
func (r *reached) reach(at time.Duration, sign bool) {
	r.now = max(r.now, at)
	if sign {
		r.sign = max(r.sign, at)
	}
}

// reachedBy returns how far a source's facts have come.
func (f *sourceFacts) reachedBy(source timeline.SourceID) *reached {
	if f.reached[source] == nil {
		f.reached[source] = &reached{}
	}
	return f.reached[source]
}

// come returns how far time has come, by every source's facts, and the last instant at which a source's process is
// known to have run.
func (f *sourceFacts) come() (now, lastSign time.Duration) {
	now = f.now
	for source, r := range f.reached {
		now = max(now, f.clocks.At(source, r.now).Earliest)
		lastSign = max(lastSign, f.clocks.At(source, r.sign).Earliest)
	}
	return now, lastSign
}

// A moment is an instant of a source's clock.
type moment struct {
	source timeline.SourceID
	at     time.Duration
}

// on returns a moment on another source's clock: no later than it was.
func (f *sourceFacts) on(source timeline.SourceID, m moment) time.Duration {
	if m.source == source {
		return m.at
	}
	return f.clocks.From(source, f.clocks.At(m.source, m.at).Latest)
}

// An aligned places a target's judgement on the run's clock.
type aligned struct {
	clocks *align.Clocks
	source timeline.SourceID
	shared bool // the source has the run's clock
	jumps  []align.Jump
}

// An alignedBy caches alignments. It is valid for this number of clock comparisons and sources.
type alignedBy struct {
	syncs, sources int
	of             map[timeline.SourceID]aligned
}

func (f *sourceFacts) aligned(source timeline.SourceID) aligned {
	if k := &f.alignments; k.of == nil || k.syncs != f.clocks.Len() || k.sources != len(f.sources) {
		*k = alignedBy{f.clocks.Len(), len(f.sources), map[timeline.SourceID]aligned{}}
	}
	a, known := f.alignments.of[source]
	if known {
		return a
	}
	a = aligned{clocks: &f.clocks, source: source, shared: f.clocks.Shared(source)}
	if sum, known := f.clocks.Summary(source); known {
		a.jumps = sum.Jumps
	}
	f.alignments.of[source] = a
	return a
}

func (a aligned) at(instant time.Duration) model.Instant { return a.clocks.At(a.source, instant) }

// bracket returns a bracket of the source's clock on the run's.
func (a aligned) bracket(i model.Instant) model.Instant {
	if a.shared {
		return i
	}
	return model.Instant{Earliest: a.at(i.Earliest).Earliest, Latest: a.at(i.Latest).Latest}
}

// missed returns how much the run's clock can have gone ahead in jumps between two instants: the source did not run
// meanwhile.
func (a aligned) missed(from, to time.Duration) time.Duration {
	missed := time.Duration(0)
	for _, jump := range a.jumps {
		if jump.From < to && from < jump.To {
			missed += jump.Most
		}
	}
	return missed
}

// windows places windows. A length of the source's clock is one of the run's but for drift, and what a jump hid.
func (a aligned) windows(list []model.Window) []model.Window {
	if a.shared {
		return list
	}
	for i := range list {
		w := &list[i]
		missed := a.missed(w.Start.Earliest, w.End.Latest)
		w.Start, w.End = a.bracket(w.Start), a.bracket(w.End)
		w.Start.Latest = min(w.Start.Latest, w.End.Latest)
		w.End.Earliest = max(w.End.Earliest, w.Start.Earliest)
		w.Length, w.Downtime = drifted(w.Length, missed), drifted(w.Downtime, missed)
		if w.Blackout != nil {
			w.Blackout = new(drifted(*w.Blackout, missed))
		}
		if w.Cut != nil {
			w.Cut = new(a.bracket(*w.Cut))
		}
		if w.Most != nil {
			w.Most = &model.Most{Length: drifted(model.Length{Max: w.Most.Length}, missed).Max,
				Downtime: drifted(model.Length{Max: w.Most.Downtime}, missed).Max}
		}
	}
	return list
}

// drifted returns a length by another clock.
func drifted(l model.Length, missed time.Duration) model.Length {
	return model.Length{
		Min: max(0, l.Min-time.Duration(align.Drift*float64(l.Min))-1),
		Max: l.Max + time.Duration(align.Drift*float64(l.Max)) + 1 + missed,
	}
}

// periods places periods, each as wide as it can have been, and joins those that then overlap.
func (a aligned) periods(list []windows.Period) []windows.Period {
	if a.shared {
		return list
	}
	list = slices.Clone(list)
	for _, jump := range a.jumps {
		list = append(list, windows.Period{From: jump.From, To: jump.To, Reason: model.ReasonJumped})
	}
	placed := make([]windows.Period, 0, len(list))
	for _, p := range list {
		placed = append(placed, windows.Period{From: max(0, a.at(p.From).Earliest), To: a.at(p.To).Latest,
			Reason: p.Reason})
	}
	return windows.Merge(placed)
}

// firstLast places what bounds a Pod's answers: it had answered by Done, and still did at Sent.
func (a aligned) firstLast(f windows.FirstLast) windows.FirstLast {
	if a.shared {
		return f
	}
	for _, r := range []*timeline.Request{f.FirstOK, f.LastOK, f.FirstFailure, f.LastFailure} {
		if r != nil {
			r.Sent, r.Done = a.at(r.Sent).Earliest, a.at(r.Done).Latest
		}
	}
	if f.Stopped != nil {
		f.Stopped = new(a.bracket(*f.Stopped))
	}
	return f
}

func (a aligned) streaks(s *windows.Streaks) *windows.Streaks {
	if a.shared {
		return s
	}
	return s.Placed(a.at)
}

// failure places a failed request in the middle of what its clock allows.
func (a aligned) failure(f model.Failure) model.Failure {
	p := a.clocks.Place(a.source, f.Due, f.Sent, f.Done)
	f.Due, f.Sent, f.Done, f.Error = p.Due, p.Sent, p.Done, max(f.Error, p.Error)
	return f
}

// series places slots, each by its middle. Where two clocks drift apart, two slots may come to lie in one, and one
// becomes two.
func (a aligned) series(s model.BucketSeries, width time.Duration) model.BucketSeries {
	if a.shared {
		return s
	}
	placed := model.BucketSeries{
		Sent: make([]int, len(s.Sent)), Failed: make([]int, len(s.Sent)), Unobserved: make([]float64, len(s.Sent)),
		Latency: make([]model.Histogram, len(s.Sent)),
	}
	to := make([]int, len(s.Sent)) // where each slot lies
	for i := range s.Sent {
		at := a.at(time.Duration(i)*width + width/2)
		to[i] = min(max(int((at.Earliest+(at.Latest-at.Earliest)/2)/width), 0), max(0, len(s.Sent)-1))
		j := to[i]
		sent, failed := s.Sent[i], s.Failed[i]
		if i > 0 && j == to[i-1]+2 { // half of it lies in the slot between
			placed.Sent[j-1], placed.Failed[j-1] = sent/2, failed/2
			sent, failed = sent-sent/2, failed-failed/2
		}
		placed.Sent[j] += sent
		placed.Failed[j] += failed
		placed.Latency[j] = placed.Latency[j].Plus(s.Latency[i])
	}
	for class, pairs := range s.Classes {
		if placed.Classes == nil {
			placed.Classes = map[string]model.SparseCounts{}
		}
		placed.Classes[class] = placedPairs(pairs, to)
	}
	return placed
}

// placedPairs returns counts by slot where the slots lie elsewhere.
func placedPairs(pairs model.SparseCounts, to []int) model.SparseCounts {
	counts := map[int]int{}
	for i := 0; i+1 < len(pairs); i += 2 {
		counts[to[pairs[i]]] += pairs[i+1]
	}
	var placed model.SparseCounts
	for _, slot := range sortedKeys(counts) {
		placed = append(placed, slot, counts[slot])
	}
	return placed
}

func sortedKeys(counts map[int]int) []int {
	keys := make([]int, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// publishSources returns the run's sources, by ID. It goes over what was measured by each.
func (t *Tracker) publishSources(snapshots []*snapshot) []model.Source {
	var list []model.Source
	judged := map[timeline.SourceID][]*snapshot{}
	for _, snapshot := range snapshots {
		if snapshot.target.Kind.Judged() {
			judged[snapshot.target.Source] = append(judged[snapshot.target.Source], snapshot)
		}
	}
	for _, id := range t.sourceIDs() {
		of := t.sources[id]
		s := model.Source{ID: id, Name: of.Name, Role: of.Role, Node: of.Node, Zone: of.Zone, Stalls: len(t.stalls[id])}
		if sum, known := t.clocks.Summary(id); known {
			s.Clock = &model.SourceClock{Min: sum.Min, Max: sum.Max, Exchanges: sum.Exchanges, Jumps: len(sum.Jumps)}
		}
		a := t.aligned(id)
		var lost []windows.Period
		for _, snapshot := range judged[id] {
			s.Late += snapshot.tally.late
			coverage := snapshot.coverage(a)
			if s.Coverage == nil || coverage < *s.Coverage {
				s.Coverage = &coverage
			}
			lost = append(lost, t.losses.of(snapshot.target, snapshot.measured)...)
		}
		slices.SortStableFunc(lost, func(a, b windows.Period) int { return cmp.Compare(a.From, b.From) })
		for _, p := range windows.Merge(lost) {
			s.Lost = append(s.Lost, a.bracket(model.Instant{Earliest: p.From, Latest: p.To}))
		}
		list = append(list, s)
	}
	return list
}

func (f *sourceFacts) sourceIDs() []timeline.SourceID {
	ids := make([]timeline.SourceID, 0, len(f.sources))
	for id := range f.sources {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// sends is what a target sends, and where.
type sends struct {
	kind          timeline.TargetKind
	service, port string
	url           string
}

// alikeTo returns the number of the targets that send what a target does; -1 for one that is not judged, or is not
// known.
func (t *tracks) alikeTo(target timeline.Target) int {
	key := sends{target.Kind, target.Service, target.PortName, target.URL}
	if !target.Kind.Judged() || key.service+key.url == "" {
		return -1
	}
	n, known := t.alike[key]
	if !known {
		n = len(t.alike)
		t.alike[key] = n
	}
	return n
}

// shareCoverage gives targets of several sources that send the same to the same Service the coverage that they have
// together: what one missed, another may have seen.
func (t *Tracker) shareCoverage(tl *model.Timeline, snapshots []*snapshot) {
	groups := make([][]int, len(t.alike))
	for i, s := range snapshots {
		if s.alike >= 0 {
			groups[s.alike] = append(groups[s.alike], i)
		}
	}
	for _, group := range groups {
		if !slices.ContainsFunc(group, func(i int) bool {
			return snapshots[i].target.Source != snapshots[group[0]].target.Source
		}) {
			continue
		}
		var measured, observed []windows.Period
		for _, i := range group {
			a := t.aligned(snapshots[i].target.Source)
			within := windows.Period{From: tl.Targets[i].Measured.Earliest, To: tl.Targets[i].Measured.Latest}
			measured = append(measured, within)
			observed = append(observed, windows.Without(within, a.periods(snapshots[i].unobserved))...)
		}
		whole := windows.Total(windows.Merge(measured))
		if whole <= 0 {
			continue
		}
		share := float64(windows.Total(windows.Merge(observed))) / float64(whole)
		for _, i := range group {
			tl.Targets[i].SharedCoverage = &share
		}
	}
}
