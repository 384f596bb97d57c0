package loadgen

import (
	"testing"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// Also if the numbers of addresses were forgotten since a connection was made.
func TestEveryRequestNamesTheAddressItWentTo(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := loadtest.Serve(t, faultserver.Config{})
			probe := probe(1, kind, s.URL(), 200)
			probe.Addr = s.Addr()
			f := run(t, timeline.StartClock(), func(p *Prober, f *facts) {
				loadtest.WaitFor(t, "20 good answers", func() bool { return f.ended(1, timeline.OK) >= 20 })
				p.notes.Forget()
				p.notes.Forget()
				loadtest.WaitFor(t, "the address said again", func() bool {
					f.mu.Lock()
					defer f.mu.Unlock()
					return len(f.peers) > 1
				})
				loadtest.Close(t, s)
				loadtest.WaitFor(t, "20 refused connections", func() bool { return f.ended(1, timeline.Refused) >= 20 })
			}, probe)
			for _, r := range f.of(1) {
				if sent := r.Class.Observed() && r.Class != timeline.NoSlot; sent && f.peers[r.Peer] != s.Addr() {
					t.Fatalf("%v request %d went to %v, want %v", r.Class, r.Seq, f.peers[r.Peer], s.Addr())
				}
			}
		})
	}
}
