package loadgen

import (
	"net"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// underWay returns how many requests of a target are open.
func underWay(p *Prober, id timeline.TargetID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[id].Inflight.Awaited()
}

// What was not waited for is neither good nor failed, whatever becomes of it, and each request is reported once.
func TestAbandonedRequestsAreLocal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts for it
	if err != nil {
		t.Fatal(err)
	}
	kinds := []timeline.TargetKind{timeline.New, timeline.Reused}
	var probes []Probe
	for i, kind := range kinds {
		p := probe(timeline.TargetID(i+1), kind, "http://"+silent.Addr().String(), 100)
		p.Timeout, p.Connections = time.Minute, 2
		probes = append(probes, p)
	}
	clock := timeline.StartClock()
	var prober *Prober
	f := run(t, clock, func(p *Prober, f *facts) {
		prober = p
		loadtest.WaitFor(t, "requests of each under way", func() bool { return min(underWay(p, 1), underWay(p, 2)) >= 5 })
		p.Abandon()
	}, probes...)
	if took := clock.Now(); took > 30*time.Second {
		t.Errorf("it was not abandoned: %v", took)
	}
	for i, kind := range kinds {
		requests := f.of(timeline.TargetID(i + 1))
		if n := classes(requests); n[timeline.Local]+n[timeline.NotSent] != len(requests) || n[timeline.Local] == 0 {
			t.Errorf("%s: %v", kind, n)
		}
	}
	told := f.count(1) + f.count(2)
	silent.Close() // resets what it never accepted
	prober.active.Wait()
	if now := f.count(1) + f.count(2); now != told {
		t.Errorf("%d requests were reported, and %d later", told, now)
	}
}
