package engine

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// A spare connection is closed when nothing has used it for a while.
func TestUnusedSpareConnectionsOfStreamsAreClosed(t *testing.T) {
	ours, theirs := overHTTP2(t)
	synctest.Test(t, func(t *testing.T) {
		target := aRequester(timeline.StartClock(), 100)
		e := newStreams(target)
		c := &streamConn{engine: e, conn: ours, http2: ours.Dialog.(*protocol.HTTP2Conn)}
		c.mu.Lock()
		c.await(target.Timeout)
		c.mu.Unlock()
		closed := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.over
		}
		time.Sleep(spareIdle - ms)
		if closed() {
			t.Error("it was closed early")
		}
		time.Sleep(target.Timeout)
		if !closed() {
			t.Error("it is still open")
		}
		e.wg.Wait()
	})
	sent, err := io.ReadAll(theirs)
	if err != nil || len(sent) < 9 || http2.FrameType(sent[3]) != http2.FrameGoAway {
		t.Errorf("the peer got %q, %v", sent, err)
	}
}
