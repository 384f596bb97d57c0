package loadgen

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/timeline"
)

// A tcpServer serves every connection by one function, and counts them.
type tcpServer struct {
	listener net.Listener
	accepted atomic.Int64
	wg       sync.WaitGroup
}

func serveTCP(t *testing.T, serve func(*net.TCPConn)) *tcpServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tcpServer{listener: listener}
	s.wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.wg.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { listener.Close(); s.wg.Wait() })
	return s
}

func (s *tcpServer) url() string { return "tcp://" + s.listener.Addr().String() }

// answering answers every line with what reply makes of it.
func answering(reply func(line string) string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		lines := bufio.NewReader(c)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := io.WriteString(c, reply(line)); err != nil {
				return
			}
		}
	}
}

func saying(text string) func(string) string { return func(string) string { return text } }

// once answers one line, and closes the connection.
func once(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, text)
	}
}

// greeting speaks first, and then waits for the client to leave.
func greeting(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

func TestTCPRepliesAreJudged(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	fresh := []timeline.TargetKind{timeline.New, timeline.Direct}
	reused := []timeline.TargetKind{timeline.Reused}
	both := slices.Concat(fresh, reused)
	tests := []struct {
		name        string
		kinds       []timeline.TargetKind
		echo, reply string
		serve       func(*net.TCPConn)
		want        timeline.Class
	}{
		{"the echo", both, "ping\n", "", answering(strings.Clone), timeline.OK},
		{"the expected reply", both, "PING\r\n", "+PONG\r\n", answering(saying("+PONG\r\n")), timeline.OK},
		{"more than the beginning of the reply", fresh, "PING\r\n", "+PO", answering(saying("+PONG\r\n")), timeline.OK},
		{"another reply", both, "PING\r\n", "+PONG\r\n", answering(saying("-ERR\r\n")), timeline.Body},
		{"another reply, after a good beginning", both, "ping\n", "", answering(saying("pink\n")), timeline.Body},
		{"more than the reply", reused, "PING\r\n", "+PONG", answering(saying("+PONG\r\n")), timeline.Body},
		{"no reply at all", both, "ping\n", "", once(""), timeline.EOF},
		{"half a reply", both, "ping\n", "", once("pi"), timeline.Body},
		{"silence", both, "ping\n", "", answering(saying("")), timeline.TimeoutResponse},
		{"half a reply, then silence", both, "ping\n", "", answering(saying("pi")), timeline.TimeoutResponse},
		{"the expected greeting", fresh, "", "220 ", greeting("220 mail\r\n"), timeline.OK},
		{"another greeting", fresh, "", "220 ", greeting("421 busy\r\n"), timeline.Body},
		{"nothing awaited", fresh, "", "", greeting(""), timeline.OK},
	}
	for _, test := range tests {
		for _, kind := range test.kinds {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				s := serveTCP(t, test.serve)
				p := probe(1, kind, s.url(), 100)
				p.Addr = netip.MustParseAddrPort(s.listener.Addr().String())
				p.Echo, p.Reply, p.Connections, p.MaxConnections = test.echo, test.reply, 2, 1000
				if p.Timeout = 10 * time.Second; test.want.Timeout() {
					p.Timeout = 200 * time.Millisecond
				}
				f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && (r.Class != test.want || r.Code != 0) {
						t.Errorf("%v %d, want %v", r.Class, r.Code, test.want)
					}
				}
			})
		}
	}
}

func TestTCPConnectionsAreReused(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	s := serveTCP(t, answering(strings.Clone))
	p := probe(1, timeline.Reused, s.url(), 200)
	p.Echo, p.Connections, p.Timeout = "ping\n", 2, 10*time.Second
	f := runUntil(t, "50 observed requests", func(f *facts) bool { return f.observed(1) >= 50 }, p)
	first, n := 0, classes(f.of(1))
	for _, r := range f.of(1) {
		if r.Class == timeline.OK && !r.Reused {
			first++
		}
	}
	if accepted := int(s.accepted.Load()); first > accepted || first >= n[timeline.OK] || failed(f.of(1)) > 0 {
		t.Errorf("%d connections, %d requests were the first of theirs, %v", accepted, first, n)
	}
}

// A request has its phases, of those that TCP has.
func TestTCPPhases(t *testing.T) {
	t.Parallel()
	p := probe(1, timeline.New, serveTCP(t, func(c *net.TCPConn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		time.Sleep(2 * time.Millisecond) // the server takes its time
		_, _ = io.WriteString(c, line)
	}).url(), 50)
	p.Echo, p.Timeout = "ping\n", 10*time.Second
	f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
	for _, r := range f.of(1) {
		if r.Class == timeline.OK && (r.Connect == 0 || r.FirstByte == 0 || r.TLS != 0 || r.Reused) {
			t.Errorf("%+v", r)
		}
	}
}

func TestTCPConnectionRefused(t *testing.T) {
	t.Parallel()
	s := serveTCP(t, greeting(""))
	s.listener.Close()
	f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, probe(1, timeline.New, s.url(), 100))
	for _, r := range f.of(1) {
		if r.Class.Observed() && r.Class != timeline.Refused {
			t.Errorf("%+v", r)
		}
	}
}
