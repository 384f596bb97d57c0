package correlate

import (
	"slices"
	"strconv"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/internal/held"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file judges held targets: package held makes their cuts and windows on their source's clock, and what is
// published of them is placed on the run's.

// heldFacts are the changes of held connections, by target, and what is missing of them.
type heldFacts struct {
	of    map[timeline.TargetID]*held.Ledger
	next  map[timeline.SourceID]uint64 // after the highest number of each source
	have  map[timeline.SourceID]uint64 // how many of each source there are
	peers map[timeline.SourceID]map[uint16]string
}

func newHeldFacts() heldFacts {
	return heldFacts{
		of: map[timeline.TargetID]*held.Ledger{}, next: map[timeline.SourceID]uint64{},
		have: map[timeline.SourceID]uint64{}, peers: map[timeline.SourceID]map[uint16]string{},
	}
}

func (h *heldFacts) addPeer(p timeline.Peer) {
	if h.peers[p.Source] == nil {
		h.peers[p.Source] = map[uint16]string{}
	}
	h.peers[p.Source][p.ID] = p.Addr.String()
}

func (t *Tracker) addHeld(b timeline.HeldBatch) {
	h := &t.held
	n := uint64(len(b.Changes))
	h.next[b.Source], h.have[b.Source] = max(h.next[b.Source], b.FirstSeq+n), h.have[b.Source]+n
	for i, c := range b.Changes {
		ledger := h.of[c.Target]
		if ledger == nil {
			ledger = &held.Ledger{}
			h.of[c.Target] = ledger
		}
		ledger.Add(b.FirstSeq+uint64(i), c)
		if tr := t.targets[c.Target]; tr != nil {
			tr.changes++
			tr.source.reach(c.At, true)
		}
	}
}

// judgeHeld fills in what became of held connections. The windows of other targets have their IDs.
func (t *Tracker) judgeHeld(s *evidence.Input, snapshots []*snapshot) {
	tl, id := s.Run, len(s.Run.Windows)
	for _, snapshot := range snapshots {
		if snapshot.target.Kind != timeline.Held {
			continue
		}
		target := snapshot.target
		ledger := t.held.of[target.ID]
		if ledger == nil {
			ledger = &held.Ledger{}
		}
		h, cuts := ledger.Judge(held.Options{
			Target: target, Join: t.join(), End: snapshot.measured.To, Live: t.live(),
			Backend: func(id uint16) string { return t.backendName(target.Source, id) },
			Peer:    func(id uint16) string { return t.held.peers[target.Source][id] },
		})
		h.NotOnRecord = int(t.held.next[target.Source] - t.held.have[target.Source])
		h.Open = h.NotOnRecord > 0 || slices.ContainsFunc(snapshot.unobserved, func(p windows.Period) bool {
			return p.Reason == model.ReasonLost || p.Reason == model.ReasonEnded
		})
		clock := t.aligned(target.Source)
		h.Coverage = snapshot.coverage(clock)
		clock.held(&h, cuts)
		for i := range h.Windows {
			id++
			h.Windows[i].ID = id
		}
		for i := range cuts {
			if cuts[i].Window > 0 {
				cuts[i].Window = h.Windows[cuts[i].Window-1].ID
			}
		}
		s.Cuts[target.ID] = cuts
		h.List, h.Truncated = cuts[:min(len(cuts), maxFailures)], max(0, len(cuts)-maxFailures)
		tl.Held = append(tl.Held, h)
	}
}

// backendName returns who answered by the reply's own word; "" if it does not say.
func (f *sourceFacts) backendName(source timeline.SourceID, id uint16) string {
	if id == 0 {
		return ""
	}
	if names := f.backends[source]; int(id) < len(names) {
		return names[id]
	}
	return "#" + strconv.Itoa(int(id))
}

// held places what became of held connections on the run's clock.
func (a aligned) held(h *model.Held, cuts []model.HeldCut) {
	if a.shared {
		return
	}
	for i := range cuts {
		c := &cuts[i]
		c.Idle = drifted(c.Idle, a.missed(c.Cut.Earliest, c.Cut.Latest))
		c.Cut = a.bracket(c.Cut)
		if c.Back != nil {
			c.Back = new(a.bracket(*c.Back))
		}
	}
	for i := range h.Windows {
		w := &h.Windows[i]
		w.Window = a.windows([]model.Window{w.Window})[0]
	}
}
