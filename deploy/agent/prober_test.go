package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/record"
	"lapse/timeline"
)

// A keeper is a session whose recording is kept in memory.
type keeper struct {
	ProberService
	rec *record.Writer
}

func (k keeper) Status() Status { return Status{Size: k.rec.Size(), Phase: timeline.PhaseMeasuring} }

func (k keeper) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return k.rec.Tail(ctx, offset)
}

// A connection that breaks costs nothing, unless it is away for longer than the prober keeps what it has measured.
func TestFollowerThatWasAwayForTooLongStops(t *testing.T) {
	for _, away := range []time.Duration{time.Minute, 3 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			rec, err := record.NewInMemory(2*time.Minute, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			network, api, back := newMemoryNet(), SessionAPI(keeper{rec: rec}), time.Now().Add(time.Minute+away)
			find := func(string, bool) (http.Handler, func(), error) { return api, func() {}, nil }
			server := NewProberServer(find, nil)
			var running sync.WaitGroup
			running.Go(func() { server.Serve(network) })
			network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
				if n == 1 {
					time.AfterFunc(time.Minute, func() { conn.Close() })
				} else if time.Now().Before(back) {
					return nil, errors.New("no route to host")
				}
				return conn, nil
			}
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() {
				defer stop()
				for i := range 600 {
					time.Sleep(time.Second)
					if err := errors.Join(rec.Append(timeline.Backend{ID: uint16(i)}), rec.Flush()); err != nil {
						t.Error(err)
					}
				}
			})
			client, next := NewClient(network.dial), 0
			err = client.FollowFacts(ctx, record.Decode, func(fact timeline.Fact) {
				if id := int(fact.(timeline.Backend).ID); id != next {
					t.Errorf("fact %d comes where %d was due", id, next)
				}
				next++
			})
			refusal, _ := errors.AsType[*RefusedError](err)
			switch {
			case away < 2*time.Minute:
				if next < 598 || !errors.Is(err, context.Canceled) {
					t.Errorf("away for %s: %d facts came, %v", away, next, err)
				}
			case refusal == nil || refusal.Status != http.StatusGone || !strings.Contains(err.Error(), "is gone") || next > 61:
				t.Errorf("away for %s: %d facts came, %v", away, next, err)
			}
			if took := time.Since(back); refusal != nil && took > 5*time.Second {
				t.Errorf("it stops %s after it could know", took)
			}
			client.Close()
			server.Close()
			running.Wait()
		})
	}
}
