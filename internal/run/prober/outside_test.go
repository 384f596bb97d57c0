package prober

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/run/runtest"
	"lapse/internal/run/source"
	"lapse/timeline"
)

// A takingRun takes what is measured outside of the cluster.
type takingRun struct {
	*runtest.HeldRun
	seqs  map[uint64]int // how often each request was taken
	parts int
	last  bool // the last part has come
}

func (r *takingRun) Join(agent.Joining) (a agent.Assignment, _ error) { return a, nil }

func (r *takingRun) Take(h agent.Handed) (over bool, _ error) {
	for _, b := range h.Batches {
		for _, q := range b.Requests {
			r.seqs[q.Seq]++
		}
	}
	r.parts, r.last = r.parts+1, h.Last
	return false, nil
}

// After a long break, all that was measured meanwhile is handed over, in parts that the Pod takes.
func TestWhatWasMeasuredDuringABreakIsHandedOver(t *testing.T) {
	const batches, each = 600, 100
	run := &takingRun{HeldRun: runtest.NewHeldRun(t), seqs: map[uint64]int{}}
	server := httptest.NewServer(agent.NewServer(run, nil).Handler)
	defer server.Close()
	client := agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	defer client.Close()
	var measured []timeline.Fact
	for first := uint64(0); first < batches*each; first += each {
		b := timeline.Batch{Source: 2, FirstSeq: first}
		for seq := first; seq < first+each; seq++ {
			due := time.Minute + time.Duration(seq)*time.Millisecond
			b.Requests = append(b.Requests, timeline.Request{Target: 7, Seq: seq, Due: due, Sent: due, Done: due + time.Millisecond})
		}
		measured = append(measured, b)
	}
	p := &Outside{Source: source.New(source.Config{ID: 2, Clock: timeline.StartClock(), Logger: slog.New(slog.DiscardHandler)}), client: client}
	defer p.Close()
	ended := func() { t.Error("the run was said to be over") }
	for _, last := range []bool{false, true} {
		if err := p.handOver(t.Context(), measured, last, ended); err != nil {
			t.Fatal(err)
		}
		if run.last != last {
			t.Errorf("the last part has come: %v", run.last)
		}
		measured = nil
	}
	if len(run.seqs) != batches*each || run.parts < 10 {
		t.Errorf("%d of %d requests, in %d parts", len(run.seqs), batches*each, run.parts)
	}
	for seq, n := range run.seqs {
		if n != 1 {
			t.Fatalf("request %d was taken %d times", seq, n)
		}
	}
}
