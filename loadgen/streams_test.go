package loadgen

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// connCount counts the connections of a server of net/http from now on, which is before it starts.
func connCount(s *httptest.Server) *atomic.Int64 {
	var n atomic.Int64
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	return &n
}

// startStreams is as startHTTP2, with a limit on the streams of a connection (0: the server's own, 250), and counts
// its connections.
func startStreams(t *testing.T, scheme string, most int, handler http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: most}
	conns := connCount(s)
	startInHTTP2(t, scheme, s)
	return s, conns
}

// Requests that wait for their replies do not keep others off the connection.
func TestSlowRepliesShareAConnection(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, scheme := range []string{"h2c", "h2"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			const together = 20
			var open atomic.Int64
			reached := make(chan struct{})
			var once sync.Once
			server, conns := startStreams(t, scheme, 0, func(http.ResponseWriter, *http.Request) {
				if open.Add(1) >= together {
					once.Do(func() { close(reached) })
				}
				<-reached
			})
			p := http2Probe(timeline.Reused, scheme, server, "/", 50)
			p.Connections = 1
			f := runUntil(t, "60 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 60 }, p)
			// a slow machine opens spare ones while the first is not open yet
			if failed(f.of(1)) > 0 || conns.Load() > 3 {
				t.Errorf("%v on %d connections: %q", classes(f.of(1)), conns.Load(), f.blames(p.Name))
			}
		})
	}
}

// A server's limit is kept, and what is due beyond it goes over spare connections.
func TestNoMoreStreamsAreOpenedThanTheServerAllows(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const most = 1
	var mu sync.Mutex
	open, tooMany := map[string]int{}, 0
	server, conns := startStreams(t, "h2c", most, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		open[r.RemoteAddr]++
		if open[r.RemoteAddr] > most {
			tooMany++
		}
		mu.Unlock()
		select { // so long that requests overlap
		case <-r.Context().Done():
		case <-time.After(30 * time.Millisecond):
		}
		mu.Lock()
		open[r.RemoteAddr]--
		mu.Unlock()
	})
	p := http2Probe(timeline.Reused, "h2c", server, "/", 100)
	p.Connections = 1
	f := runUntil(t, "100 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 100 }, p)
	if failed(f.of(1)) > 0 || tooMany > 0 || conns.Load() < 2 {
		t.Errorf("%v on %d connections, %d too many on one: %q", classes(f.of(1)), conns.Load(), tooMany,
			f.blames(p.Name))
	}
}

// A streamHolder is a server that answers until it is told to hold. Then it leaves requests open until there are
// enough of them, and does something to them, by connection. Afterwards it answers again.
type streamHolder struct {
	enough int
	act    func(c *loadtest.HTTP2Script, streams []uint32) (goesOn bool)

	mu      sync.Mutex
	holding bool
	done    bool
	open    map[*loadtest.HTTP2Script][]uint32
	conns   map[*loadtest.HTTP2Script]bool
}

func (s *streamHolder) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

func (s *streamHolder) acted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *streamHolder) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *streamHolder) answer(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
	if !s.holding {
		c.OK(stream)
		return true
	}
	s.open[c] = append(s.open[c], stream)
	n := 0
	for _, streams := range s.open {
		n += len(streams)
	}
	if n < s.enough {
		return true
	}
	s.holding, s.done = false, true
	for c, streams := range s.open {
		if !s.act(c, streams) {
			_ = c.Close()
		}
	}
	return true
}

// holdStreams measures a server with exactly as many requests open as are enough, until it has acted and answers again.
func holdStreams(t *testing.T, enough int, act func(c *loadtest.HTTP2Script, streams []uint32) bool) (f *facts, name string, connections int) {
	t.Helper()
	s := &streamHolder{enough: enough, act: act, open: map[*loadtest.HTTP2Script][]uint32{}, conns: map[*loadtest.HTTP2Script]bool{}}
	p := probe(1, timeline.Reused, "h2c://"+scriptHTTP2(t, s.answer), 100)
	p.Connections, p.MaxConnections = 1, enough
	f = run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "10 good answers", func() bool { return f.ended(1, timeline.OK) >= 10 })
		s.hold()
		loadtest.WaitFor(t, "requests that wait", s.acted)
		good := f.ended(1, timeline.OK)
		loadtest.WaitFor(t, "20 more good answers", func() bool { return f.ended(1, timeline.OK) >= good+20 })
	}, p)
	return f, p.Name, s.connections()
}

// A client that has all of its calls on one connection loses all of them with it.
func TestACutConnectionFailsEachRequestThatIsOpenOnIt(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const enough = 12
	f, name, _ := holdStreams(t, enough, func(*loadtest.HTTP2Script, []uint32) bool { return false })
	n := classes(f.of(1))
	if got := n[timeline.EOF] + n[timeline.Reset]; !accounted(got, enough, n) ||
		failed(f.of(1)) != got+n[timeline.NoSlot] {
		t.Errorf("%v: %q", n, f.blames(name))
	}
}

// A GOAWAY fails the requests above its last stream, at once. Those below finish, in whatever order, and the
// connection takes no other.
func TestGoAwayFailsTheRequestsAboveItsLastStream(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const enough = 12
	above := 0
	f, name, connections := holdStreams(t, enough, func(c *loadtest.HTTP2Script, streams []uint32) bool {
		below := streams[:len(streams)/2]
		above += len(streams) - len(below)
		last := uint32(0)
		if len(below) > 0 {
			last = below[len(below)-1]
		}
		_ = c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) // that it will close, as grpc-go and net/http announce it
		_ = c.WriteGoAway(last, http2.ErrCodeNo, []byte("deploy"))
		for i := range below {
			c.OK(below[len(below)-1-i])
		}
		return true
	})
	n := classes(f.of(1))
	if !accounted(n[timeline.EOF], above, n) || failed(f.of(1)) != n[timeline.EOF]+n[timeline.NoSlot] ||
		connections < 2 {
		t.Errorf("%v, %d above, %d connections: %q", n, above, connections, f.blames(name))
	}
	if told := strings.Join(f.blames(name), "; "); !strings.Contains(told,
		`eof: GOAWAY NO_ERROR "deploy": the request was not processed`) {
		t.Errorf("%q", told)
	}
}

// After a GOAWAY the connection may end before the requests that it let finish have.
func TestTheEndAfterAGoAwayFailsWhatIsStillOpen(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const enough = 6
	finished := 0
	f, name, _ := holdStreams(t, enough, func(c *loadtest.HTTP2Script, streams []uint32) bool {
		_ = c.WriteGoAway(streams[len(streams)-1], http2.ErrCodeNo, nil)
		c.OK(streams[0])
		finished++
		return false
	})
	n := classes(f.of(1))
	if got := n[timeline.EOF] + n[timeline.Reset]; !accounted(got, enough-finished, n) ||
		failed(f.of(1)) != got+n[timeline.NoSlot] {
		t.Errorf("%v, %d finished: %q", n, finished, f.blames(name))
	}
}

// What is wrong with one stream is no failure of the others, and the connection goes on.
func TestAFaultOfOneStreamLeavesTheOthersAlone(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for name, row := range map[string]struct {
		fault func(c *loadtest.HTTP2Script, stream uint32)
		want  timeline.Class
		says  string
	}{
		"RST_STREAM":        {func(c *loadtest.HTTP2Script, s uint32) { _ = c.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, timeline.Reset, "reset: RST_STREAM REFUSED_STREAM"},
		"a bad header":      {func(c *loadtest.HTTP2Script, s uint32) { c.Header(s, true, "status: 200", "X-Pod: a") }, timeline.Body, "invalid header field name"},
		"no status":         {func(c *loadtest.HTTP2Script, s uint32) { c.Header(s, true, "x-pod: a") }, timeline.Body, "no status code of HTTP/2"},
		"data at the start": {func(c *loadtest.HTTP2Script, s uint32) { _ = c.WriteData(s, true, []byte("x")) }, timeline.Body, "data before a header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := 0
			f, probe, connections := holdStreams(t, 6, func(c *loadtest.HTTP2Script, streams []uint32) bool {
				for i, stream := range streams {
					if i == len(streams)/2 {
						row.fault(c, stream)
						faults++
					} else {
						c.OK(stream)
					}
				}
				return true
			})
			n := classes(f.of(1))
			if n[row.want] != faults || failed(f.of(1)) != faults+n[timeline.NoSlot] || connections > 3 {
				t.Errorf("%v on %d connections: %q", n, connections, f.blames(probe))
			}
			if told := strings.Join(f.blames(probe), "; "); !strings.Contains(told, row.says) {
				t.Errorf("%q", told)
			}
		})
	}
}

// Frames that break the rules of the connection end it, and each request on it.
func TestAFaultOfTheConnectionFailsEachRequest(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const enough = 6
	f, name, _ := holdStreams(t, enough, func(c *loadtest.HTTP2Script, streams []uint32) bool {
		c.OK(streams[len(streams)-1] + 2) // was never opened
		return true
	})
	if n := classes(f.of(1)); n[timeline.Body] != enough || failed(f.of(1)) != enough+n[timeline.NoSlot] {
		t.Errorf("%v: %q", n, f.blames(name))
	}
}

// One request whose reply does not come is given up by RST_STREAM, while others come and go on the same connection.
func TestOneStreamTimesOutAlone(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var asked, cancelled, conns atomic.Int64
	addr := serveTCP(t, func(tcp *net.TCPConn) {
		conns.Add(1)
		loadtest.RunHTTP2(&countResets{TCPConn: tcp, resets: &cancelled}, func(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
			if asked.Add(1)%10 != 0 {
				c.OK(stream)
			}
			return true
		})
	}).listener.Addr().String()
	p := probe(1, timeline.Reused, "h2c://"+addr, 100)
	p.Connections, p.Timeout = 1, time.Second
	f := runUntil(t, "5 timeouts", func(f *facts) bool { return f.ended(1, timeline.TimeoutResponse) >= 5 && cancelled.Load() >= 5 }, p)
	n := classes(f.of(1))
	if failed(f.of(1)) != n[timeline.TimeoutResponse] || n[timeline.OK] == 0 ||
		n[timeline.TimeoutResponse] > n[timeline.OK]/2 {
		t.Errorf("%v: %q", n, f.blames(p.Name))
	}
	if conns.Load() > 3 {
		t.Errorf("%d connections", conns.Load())
	}
	for _, r := range f.of(1) {
		if r.Class == timeline.TimeoutResponse && r.Done-r.Sent < p.Timeout {
			t.Errorf("%+v", r)
		}
	}
}

// countResets counts the frames that are RST_STREAM, of those that come alone.
type countResets struct {
	*net.TCPConn
	resets *atomic.Int64
}

func (c *countResets) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n == http2FrameHeader && http2.FrameType(p[3]) == http2.FrameRSTStream {
		c.resets.Add(1)
	}
	return n, err
}

// A connection whose peer sends nothing takes no more requests than fit into its send buffer, and is given up when
// all on it have failed.
func TestASilentConnectionIsGivenUpAtLast(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var conns, mute atomic.Int64
	addr := serveTCP(t, func(tcp *net.TCPConn) {
		first := conns.Add(1) == 1
		loadtest.RunHTTP2(tcp, func(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
			if first {
				mute.Add(1)
			} else {
				c.OK(stream)
			}
			return true
		})
	}).listener.Addr().String()
	p := probe(1, timeline.Reused, "h2c://"+addr, 50)
	p.Connections, p.Timeout, p.Header = 1, time.Second, http.Header{"X-Long": {strings.Repeat("~", 2000)}}
	f := runUntil(t, "60 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 60 && f.ended(1, timeline.TimeoutResponse) >= 5 }, p)
	n := classes(f.of(1))
	if failed(f.of(1)) != n[timeline.TimeoutResponse] || mute.Load() > mostUnread/2000 {
		t.Errorf("%v, %d requests on the silent one: %q", n, mute.Load(), f.blames(p.Name))
	}
}

// net/http's server shuts down in two steps while requests are open: it lets all of them finish.
func TestAGracefulShutdownFailsNoOpenStream(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const together = 10
	var open atomic.Int64
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server, _ := startStreams(t, "h2c", 0, func(http.ResponseWriter, *http.Request) {
		if open.Add(1) >= together {
			once.Do(func() { close(reached) })
		}
		<-release
	})
	p := http2Probe(timeline.Reused, "h2c", server, "/", 100)
	p.Connections, p.MaxConnections = 1, together
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		<-reached
		var down sync.WaitGroup
		down.Go(func() { _ = server.Config.Shutdown(t.Context()) })
		loadtest.WaitFor(t, "a refusal", func() bool { return refuses(server.Listener.Addr().String()) })
		close(release)
		loadtest.WaitFor(t, "20 refusals", func() bool { return f.ended(1, timeline.Refused) >= 20 })
		down.Wait()
	}, p)
	if n := classes(f.of(1)); n[timeline.OK] < together || failed(f.of(1)) != n[timeline.Refused]+n[timeline.NoSlot] {
		t.Errorf("%v: %q", n, f.blames(p.Name))
	}
}

func refuses(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err != nil
}
