package cli

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"lapse/dashboard"
	"lapse/internal/layer"
)

// `lapse attach guard` passes the streams of the guard's pages on, and those of no other page.
func TestAttachStreamsThePagesOfAGuard(t *testing.T) {
	layer.Real(t)
	guard := httptest.NewServer(dashboard.Handler(dashboard.NewStore(), dashboard.Options{}))
	defer guard.Close()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", guard.Listener.Addr().String())
	}
	here := httptest.NewServer(guardPages(&http.Transport{DialContext: dial}))
	defer here.Close()
	stream := strings.Replace(here.URL, "http", "ws", 1) + "/api/v1/stream"
	for origin, want := range map[string]int{here.URL: 101, guard.URL: 403, "http://evil.example": 403} {
		conn, reply, err := websocket.DefaultDialer.Dial(stream, http.Header{"Origin": {origin}})
		if err == nil {
			conn.Close()
		}
		if reply == nil || reply.StatusCode != want {
			t.Errorf("from %s: %v (%v), want status %d", origin, reply, err, want)
		}
	}
}
