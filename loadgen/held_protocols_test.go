package loadgen

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// WebSockets are held through whatever the server says meanwhile. A close frame is a warning, whether or not a ping
// is open.
func TestWebSocketsAreHeldUntilACloseFrame(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"ws": httptest.NewServer, "wss": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const conns = 6
			var mu sync.Mutex
			var open []*websocket.Conn
			var upgraded, closed atomic.Int64
			server := start(upgrader(func(c *websocket.Conn) {
				upgraded.Add(1)
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
				talking := make(chan struct{})
				var talk sync.WaitGroup
				talk.Go(func() { // unasked, all the time
					tick := time.NewTicker(3 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-talking:
							return
						case <-tick.C:
							mu.Lock()
							_ = c.WriteMessage(websocket.TextMessage, []byte("news"))
							mu.Unlock()
						}
					}
				})
				loadtest.AnswerPings(c)
				close(talking)
				talk.Wait()
			}))
			t.Cleanup(server.Close)
			p := webSocketProbe(timeline.Held, server, conns/0.1)
			p.Connections, p.Target.Connections = conns, conns
			f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
				loadtest.WaitFor(t, "the connections", func() bool { return f.heldCount(timeline.HeldOpened) == conns })
				loadtest.WaitFor(t, "heartbeats", func() bool { return f.ended(1, timeline.OK) >= 5*conns })
				mu.Lock()
				leaving := open[:2]
				for _, c := range leaving {
					closed.Add(1)
					_ = c.WriteControl(websocket.CloseMessage,
						websocket.FormatCloseMessage(websocket.CloseGoingAway, "deploy"), time.Now().Add(time.Second))
				}
				mu.Unlock()
				loadtest.WaitFor(t, "them to be back", func() bool { return f.heldCount(timeline.HeldOpened) == conns+2 })
			}, p)
			if cut, opened := f.heldCount(timeline.HeldCut), f.heldCount(timeline.HeldOpened); int64(cut) != closed.Load() || int64(opened) != upgraded.Load() || f.heldCount(timeline.HeldFailed) > 0 {
				t.Errorf("%d cut and %d opened, the server closed %d and upgraded %d: %q", cut, opened, closed.Load(),
					upgraded.Load(), f.blames(p.Name))
			}
			for _, c := range f.held {
				if c.Kind == timeline.HeldCut && (!c.Warned || c.Class != timeline.EOF) {
					t.Errorf("%+v, the server sent a close frame", c)
				}
			}
			if texts := f.blames(p.Name); len(texts) == 0 ||
				texts[0] != "eof: closed by the server: 1001 (going away): deploy" {
				t.Errorf("the server's words are %q", texts)
			}
		})
	}
}

// A TCP server that says something unasked, or something else, ends what is known of the connection: the next answer
// could not be told from it.
func TestTCPConnectionsAreHeld(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const conns = 5
	var mu sync.Mutex
	var open []net.Conn
	s := serveTCP(t, func(c *net.TCPConn) {
		mu.Lock()
		open = append(open, c)
		mu.Unlock()
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			mu.Lock()
			_, _ = c.Write([]byte(line))
			mu.Unlock()
		}
	})
	p := heldProbe(s.url(), conns, 100*time.Millisecond)
	p.Echo = "ping\n"
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "the connections", func() bool { return f.heldCount(timeline.HeldOpened) == conns })
		loadtest.WaitFor(t, "heartbeats", func() bool { return f.ended(1, timeline.OK) >= 5*conns })
		mu.Lock()
		_, _ = open[0].Write([]byte("what?\n"))
		_ = open[1].Close()
		mu.Unlock()
		loadtest.WaitFor(t, "them to be back", func() bool { return f.heldCount(timeline.HeldOpened) == conns+2 })
	}, p)
	n := map[timeline.Class]int{}
	for _, c := range f.held {
		if c.Kind == timeline.HeldCut {
			n[c.Class]++
		}
	}
	if n[timeline.Body] != 1 || n[timeline.EOF]+n[timeline.Reset] != 1 || len(n) != 2 {
		t.Errorf("cut: %v", n)
	}
}
