package dashboard

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// A bubble is a server on a network of pipes, in virtual time.
type bubble struct {
	t     *testing.T
	store *Store
	conns chan net.Conn
}

// inBubble runs a test against a server whose time is virtual, and ends the server after it, which
// no viewer may delay.
func inBubble(t *testing.T, opts Options, test func(t *testing.T, b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, store: NewStore(), conns: make(chan net.Conn)}
		ctx, cancel := context.WithCancel(t.Context())
		var server sync.WaitGroup
		server.Go(func() {
			if err := Serve(ctx, &pipes{conns: b.conns, closed: make(chan struct{})}, b.store, opts); err != nil {
				t.Error(err)
			}
		})
		test(t, b)
		cancel()
		ended := time.Now()
		server.Wait()
		if took := time.Since(ended); took > shutdownGrace {
			t.Errorf("the server took %v to end, want at most %v", took, shutdownGrace)
		}
	})
}

// pipes is a listener for pipes.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070} }

func (b *bubble) dial() net.Conn {
	near, far := net.Pipe()
	b.conns <- far
	return near
}

// view opens a stream that resumes at a position.
func (b *bubble) view(from position) *websocket.Conn {
	b.t.Helper()
	dialer := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return b.dial(), nil }}
	conn, _, err := dialer.Dial("ws://localhost"+streamPath(from), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

func streamPath(from position) string {
	query := url.Values{}
	if from.epoch != "" {
		since, _ := json.Marshal(from.seq)
		query = url.Values{"epoch": {from.epoch}, "since": {string(since)}}
	}
	return "/api/v1/stream?" + query.Encode()
}

func read(t *testing.T, conn *websocket.Conn) Delta {
	t.Helper()
	var d Delta
	if err := conn.ReadJSON(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStreamResumesAfterTheSnapshot(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		put(t, b.store, "old", 1)
		snap := b.store.Snapshot()
		put(t, b.store, "new", 2)
		conn := b.view(position{epoch: snap.Epoch, seq: snap.Seq})
		d := read(t, conn)
		if d.Reset || len(d.Put) != 1 || string(d.Put["new"]) != "2" || d.Seq != 2 || d.Epoch != snap.Epoch || d.Protocol != Protocol {
			t.Errorf("first delta = %+v, want only what changed after the snapshot", d)
		}
	})
}

func TestStreamSaysHelloWhenNothingChanged(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		put(t, b.store, "old", 1)
		start := time.Now()
		conn := b.view(position{epoch: b.store.epoch, seq: 1})
		if d := read(t, conn); !d.Empty() || d.Seq != 1 || time.Since(start) != 0 {
			t.Errorf("first delta = %+v after %v, want an empty one at once", d, time.Since(start))
		}
		if d := read(t, conn); !d.Empty() || time.Since(start) != heartbeat {
			t.Errorf("second delta = %+v after %v, want a sign of life after %v", d, time.Since(start), heartbeat)
		}
	})
}

func TestStreamCoalescesChangesToFourASecond(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		conn := b.view(position{})
		read(t, conn)
		start := time.Now()
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range 2000 { // one second at 2000 changes per second
				put(t, b.store, "now", i)
				time.Sleep(500 * time.Microsecond)
			}
		})
		for n := 1; n <= 4; n++ {
			d := read(t, conn)
			if at := time.Since(start); len(d.Put) != 1 || at != time.Duration(n)*250*time.Millisecond {
				t.Errorf("delta %d = %+v at %v, want one value at %v", n, d, at, time.Duration(n)*250*time.Millisecond)
			}
		}
		writer.Wait()
	})
}

func TestStreamSendsALargeStateInPieces(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		big := make([]byte, maxMessage/2)
		for _, key := range []string{"a", "b", "c", "d"} {
			put(t, b.store, key, big)
		}
		conn := b.view(position{})
		held := map[string]json.RawMessage{}
		start, pieces := time.Now(), 0
		for d := (Delta{More: true}); d.More; pieces++ {
			d = read(t, conn)
			if d.Reset != (pieces == 0) {
				t.Errorf("piece %d has reset = %v", pieces, d.Reset)
			}
			take(held, d)
		}
		if pieces < 2 || len(held) != 4 || time.Since(start) != 0 {
			t.Errorf("%d values in %d pieces after %v, want 4 in several at once", len(held), pieces, time.Since(start))
		}
	})
}

// The stuck viewers take up to the first byte of a large message and then nothing, for as long as
// the test runs: their writes never return. Nobody else must notice.
func TestStuckViewersDelayNobody(t *testing.T) {
	inBubble(t, Options{WriteTimeout: time.Hour}, func(t *testing.T, b *bubble) {
		for range 10 {
			b.view(position{})
		}
		synctest.Wait() // their first message waits in the pipe, unread
		healthy := b.view(position{})
		read(t, healthy)
		start := time.Now()
		for i := range 1000 {
			put(t, b.store, "now", i)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Put waited %v for viewers", waited)
		}
		if d := read(t, healthy); string(d.Put["now"]) != "999" || time.Since(start) > 250*time.Millisecond {
			t.Errorf("the healthy viewer got %+v after %v, want the last value within the interval", d, time.Since(start))
		}
	})
}

func TestAViewerThatStopsReadingIsLetGo(t *testing.T) {
	inBubble(t, Options{MaxViewers: 1}, func(t *testing.T, b *bubble) {
		b.view(position{}) // never reads
		synctest.Wait()
		if code := b.tryStream(); code != http.StatusServiceUnavailable {
			t.Errorf("a second viewer got %d, want 503 while the only place is taken", code)
		}
		time.Sleep(12 * time.Second) // the write timeout of 10 s, the goodbye of 1 s
		synctest.Wait()
		conn := b.view(position{}) // fails the test if the place is still taken
		read(t, conn)
	})
}

// tryStream asks for a stream without being able to follow one, and returns the status.
func (b *bubble) tryStream() int {
	b.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return b.dial(), nil },
	}}
	response, err := client.Get("http://localhost/api/v1/stream")
	if err != nil {
		b.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func TestAViewerThatFallsSilentIsLetGo(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		conn := b.view(position{})
		conn.SetPingHandler(func(string) error { return nil }) // reads, but shows no life
		start := time.Now()
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				break
			}
		}
		if lived := time.Since(start); lived != pongWithin {
			t.Errorf("a viewer that answers no ping was let go after %v, want %v", lived, pongWithin)
		}
	})
}

// Viewers who show no life do not lock out one who does; those who do keep their places.
func TestASilentViewerMakesPlaceForAnother(t *testing.T) {
	inBubble(t, Options{MaxViewers: 2}, func(t *testing.T, b *bubble) {
		follow := func(conn *websocket.Conn) (ended chan time.Time) {
			ended = make(chan time.Time, 1)
			go func() {
				for {
					if _, _, err := conn.ReadMessage(); err != nil {
						ended <- time.Now()
						return
					}
				}
			}()
			return ended
		}
		start := time.Now()
		lively := follow(b.view(position{}))
		mute := b.view(position{})
		mute.SetPingHandler(func(string) error { return nil }) // reads, but shows no life
		silent := follow(mute)
		time.Sleep(2 * time.Second)
		if code := b.tryStream(); code != http.StatusServiceUnavailable {
			t.Errorf("a third viewer got %d while both may still answer, want 503", code)
		}
		time.Sleep(2 * time.Second)
		third := follow(b.view(position{})) // fails the test if it gets no place
		select {
		case at := <-silent:
			if after := at.Sub(start); after > 5*time.Second {
				t.Errorf("the silent viewer was let go after %v", after)
			}
		case <-time.After(time.Second):
			t.Error("the silent viewer is still there")
		}
		time.Sleep(time.Minute)
		if code := b.tryStream(); code != http.StatusServiceUnavailable {
			t.Errorf("a fourth viewer got %d while two show life, want 503", code)
		}
		if len(lively)+len(third) > 0 {
			t.Error("a viewer who shows life was let go")
		}
	})
}

func TestAViewerThatReadsStays(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		conn := b.view(position{})
		for start := time.Now(); time.Since(start) < 10*pongWithin; {
			read(t, conn) // answers pings on the way
		}
	})
}

func TestAViewerThatTalksIsLetGo(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, b *bubble) {
		conn := b.view(position{})
		read(t, conn)
		if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("reading after talking = %v, want the stream closed", err)
		}
	})
}

func TestViewersEndWithTheServer(t *testing.T) {
	store := NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	ln := listen(t, "127.0.0.1:0")
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, store, Options{}) }()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+ln.Addr().String()+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read(t, conn)
	cancel()
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("read after the server's end = %v, want close 1001", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

func TestStreamIsOnlyForPagesOfTheSameOrigin(t *testing.T) {
	server := httptest.NewServer(Handler(NewStore(), Options{}))
	defer server.Close()
	address := "ws" + server.URL[len("http"):] + "/api/v1/stream"
	for origin, want := range map[string]int{
		server.URL:                101,
		"":                        101, // not a browser
		"http://evil.example":     403,
		"http://127.0.0.1:1":      403, // another server on this machine
		"null":                    403,
		"https://localhost.evil/": 403,
	} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		conn, response, err := websocket.DefaultDialer.Dial(address, header)
		if err == nil {
			conn.Close()
		}
		if response == nil || response.StatusCode != want {
			t.Errorf("origin %q: %v (%v), want status %d", origin, response, err, want)
		}
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
