package correlate

import (
	"cmp"
	"maps"
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

func (f *sourceFacts) sourceIDs() []timeline.SourceID { return slices.Sorted(maps.Keys(f.sources)) }

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

func (f *sourceFacts) addBackend(b timeline.Backend) {
	names := f.backends[b.Source]
	names = append(names, make([]string, max(0, int(b.ID)+1-len(names)))...)
	names[b.ID] = b.Name
	f.backends[b.Source] = names
}

// A peerKey names an address by the number that a source gave it.
type peerKey struct {
	source timeline.SourceID
	id     uint16
}

// peerOf returns the address of a failed request's connection, where the target has several.
func (f *sourceFacts) peerOf(target *timeline.Target, id uint16) string {
	if !target.Turns {
		return ""
	}
	return f.peers[peerKey{target.Source, id}]
}
