package integration

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// These tests do to the network what hides failures from those who do not look closely. Each is headed by what was
// done, what a client sees that heeds nothing but its error, and what Lapse must say.

// Done: the first one, two or three SYNs of each new connection are dropped for a while. Linux sends them again after
// 1, 3 and 7 s. A naive client without a timeout sees nothing at all. Lapse, if told to wait for long: good answers
// in a slow window, one for each connection that the packet filter has met. With its usual timeout: as many timeouts
// of the connect. Persistent connections meet nothing.
func TestTruthOfDroppedSYNs(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "[ ! -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts ] || echo 0 >/proc/sys/net/ipv4/tcp_syn_linear_timeouts") // as before Linux 6.5
	servers := []*faultserver.Server{runtest.StartServer(t), runtest.StartServer(t), runtest.StartServer(t), runtest.StartServer(t)}
	port := func(i int) uint16 { return servers[i].Addr().Port() }
	patient, release := startHeld(t, servers[0].URL(), servers[1].URL(), servers[2].URL(), "--rate=40", "--target=new", "--baseline=0", "--timeout=15s", "--slow=500ms", "--fail-if=failed>0")
	usual, releaseToo := startHeld(t, servers[3].URL(), "--rate=100", "--baseline=0")
	for _, s := range servers {
		runtest.WaitFor(t, "10 answers", func() bool { return s.Answered() >= 10 })
	}
	dropped := strings.NewReplacer("ALL", fmt.Sprintf("{%d,%d,%d,%d}", port(0), port(1), port(2), port(3)),
		"LATER", fmt.Sprintf("{%d,%d}", port(1), port(2)), "LAST", fmt.Sprint(port(2)),
		"SYN", "tcp flags & (syn|ack) == syn", "CONN", "tcp dport . tcp sport").Replace(`table inet test {
		set one { type inet_service . inet_service; flags dynamic; size 65535; }
		set two { type inet_service . inet_service; flags dynamic; size 65535; }
		set three { type inet_service . inet_service; flags dynamic; size 65535; }
		chain in { type filter hook input priority 0;
			tcp dport ALL SYN CONN != @one add @one { CONN } drop
			tcp dport LATER SYN CONN != @two add @two { CONN } drop
			tcp dport LAST SYN CONN != @three add @three { CONN } drop
		}
	}`)
	from := nft(t, dropped)
	runtest.WaitFor(t, "connections to be met", func() bool {
		return min(elements(t, "one", port(0)), elements(t, "one", port(1)), elements(t, "one", port(2)), elements(t, "one", port(3))) >= 5
	})
	to := nft(t, "insert rule inet test in tcp flags & (syn|ack) == syn tcp dport . tcp sport != @one accept")
	after := make([]int, len(servers))
	for i, s := range servers {
		after[i] = s.Answered() + 10
	}
	for i, s := range servers {
		runtest.WaitFor(t, "10 answers more", func() bool { return s.Answered() >= after[i] })
	}
	release()
	releaseToo()
	impatient, waited := usual.ended(t, verdict.ExitPassed, verdict.ExitInconclusive), patient.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)

	for i, after := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second} {
		target := waited.judged()[i]
		met, slow, ours := elements(t, "one", port(i)), 0, 0
		for _, q := range waited.facts.requests[target.Name] {
			if q.Connect.Duration() < after {
				continue
			}
			slow++
			if q.Class == timeline.Local || q.Delayed { // this machine let us wait, beside what the SYNs took
				ours++
				continue
			}
			if q.Class != timeline.OK || q.Connect.Duration() > after+time.Second {
				t.Errorf("%s: request %d, whose SYN came through after %v, is %s after %v", target.Name, q.Seq, after, q.Class, q.Connect.Duration())
			}
		}
		if met == 0 || slow != met {
			t.Errorf("%s: %d connects took %v, the filter met %d", target.Name, slow, after, met)
		}
		windows := slices.DeleteFunc(slices.Clone(waited.tl.Windows), func(w model.Window) bool { return w.Target != target.Name })
		if slow == ours {
			t.Logf("%s: the prober did not run well enough to tell a slow answer", target.Name)
			continue
		}
		if len(windows) != 1 || windows[0].Kind != model.Slow || ours == 0 && !holds(windows[0], waited.place(from), waited.place(to)) {
			t.Errorf("%s: SYNs were dropped from %+v to %+v, the windows are %+v", target.Name, waited.place(from), waited.place(to), windows)
		}
		t.Logf("%s: %d slow, %d met", target.Name, slow, met)
	}
	met, timedOut, ours := elements(t, "one", port(3)), impatient.count(timeline.TimeoutConnect), impatient.count(timeline.Local)
	if met == 0 || timedOut > met || met > timedOut+ours || impatient.tl.Verdict.Failed != timedOut {
		t.Errorf("%d connects timed out of %d that failed, and %d are ours; the filter met %d", timedOut, impatient.tl.Verdict.Failed, ours, met)
	}
	for _, w := range impatient.tl.Windows { // reused opens a further connection where the prober was late, and its SYN is dropped as any
		if w.Target != "new" && (w.Target != "reused" || w.Failed != w.Classes[timeline.TimeoutConnect.String()]) {
			t.Errorf("a window of %s: %+v", w.Target, w)
		}
	}
}

// Done: the peer of all open connections vanishes without a word, while new ones are served (a Pod is gone, and its
// connections stay pinned to it); then the whole host for a while. A naive client with a pool hangs on each dead
// connection, or reports a slow request. Lapse: each dead connection costs one timeout and is never used again; while
// the host is away nothing but timeouts; then all is well at once.
func TestTruthOfAVanishedPeer(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "ip addr add 10.77.0.1/32 dev lo")
	var open atomic.Int64
	url := serveAt(t, "10.77.0.1:8080", func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	})
	const kept = 5
	p, release := startHeld(t, url, "--rate=100", "--baseline=0", "--timeout=300ms", fmt.Sprint("--connections=", kept))
	runtest.WaitFor(t, "a second of requests", func() bool { tl := p.peek(); return tl != nil && tl.Verdict.Sent >= 60 })
	const vanish = `table inet test {
		set young { type inet_service; flags dynamic; size 65535; }
		chain in { type filter hook input priority 0;
			tcp dport 8080 tcp flags & (syn|ack) == syn add @young { tcp sport } accept
			tcp dport 8080 tcp sport @young accept
			tcp dport 8080 drop
		}
	}`
	gone := nft(t, vanish)
	dead := int(open.Load()) + 1 // one new connection may stand at this moment
	runtest.WaitFor(t, "each connection that was kept to fail", func() bool {
		tl := p.peek()
		return tl != nil && slices.ContainsFunc(tl.Targets, func(t model.Target) bool { return t.Kind == timeline.Reused && t.Failed >= kept })
	})
	away := nft(t, "flush chain inet test in; add rule inet test in tcp dport 8080 drop; add rule inet test in tcp sport 8080 drop")
	time.Sleep(700 * time.Millisecond)
	back := nft(t, "flush chain inet test in")
	time.Sleep(500 * time.Millisecond)
	release()
	s := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)

	for _, target := range s.judged() {
		pinned, lost := 0, 0
		for _, q := range s.failures(target.Name) {
			there := q.Done < s.place(gone).From || q.Sent > s.place(back).To || target.Kind == timeline.New && q.Done < s.place(away).From && q.Sent > s.place(gone).To
			silent := q.Class.Timeout() || q.Class == timeline.NoSlot // which is for want of answers
			switch {
			case silent && there && s.afterALongStop(q):
				t.Logf("%s: request %d is %s, on a machine that stood still", target.Name, q.Seq, q.Class)
			case !silent:
				t.Errorf("%s: request %d is %s, though nobody said a word", target.Name, q.Seq, q.Class)
			case q.Done < s.place(gone).From || q.Sent > s.place(back).To:
				t.Errorf("%s: request %d, sent %v and done %v, is %s, though the peer was there", target.Name, q.Seq, q.Sent, q.Done, q.Class)
			case target.Kind == timeline.New && q.Done < s.place(away).From && q.Sent > s.place(gone).To:
				t.Errorf("%s: request %d, sent %v, is %s, though its connection was served", target.Name, q.Seq, q.Sent, q.Class)
			case q.Done < s.place(away).From:
				pinned++
			default:
				lost++
			}
		}
		if n := s.good(target.Name, s.place(away).To, s.place(back).From); n > 0 {
			t.Errorf("%s: %d requests succeeded while the host was away", target.Name, n)
		}
		if lost < 10 && !s.hasGap(target.Name, s.place(away).From, s.place(back).To) {
			t.Errorf("%s: only %d failures while the host was away", target.Name, lost)
		}
		if target.Kind == timeline.Reused && pinned > dead {
			t.Errorf("%s: %d requests failed for %d dead connections", target.Name, pinned, dead)
		}
		if target.Kind == timeline.Reused && pinned < kept {
			t.Errorf("%s: %d requests met the %d dead connections", target.Name, pinned, kept)
		}
		windows := s.windows(target.Name)
		if last := windows[len(windows)-1]; s.place(back).To < last.End.Earliest || !last.Open.End && last.End.Latest < s.place(back).From {
			t.Errorf("%s: the host was back by %+v, the window ends %+v", target.Name, s.place(back), last.End)
		}
		t.Logf("%s: %d pinned, %d lost: %v", target.Name, pinned, lost, target.Classes)
	}
}

// Done: the name server says that there is no such name, then that it is out of order, then nothing, then nothing
// about IPv6, and is well again between. A naive client sees an error as if the service were down. Lapse: each
// failure is a dns failure, of new connections only, and over as soon as the name server is well.
func TestTruthOfABrokenNameServer(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	type mode struct {
		code   dnsmessage.RCode
		silent dnsmessage.Type // which questions are not answered
		all    bool            // none is
	}
	modes := map[string]mode{
		"NXDOMAIN": {code: dnsmessage.RCodeNameError}, "SERVFAIL": {code: dnsmessage.RCodeServerFailure},
		"silence": {all: true}, "silence about AAAA": {silent: dnsmessage.TypeAAAA},
	}
	var now atomic.Pointer[mode]
	now.Store(&mode{})
	nameServer(t, func(q dnsmessage.Question) (*[4]byte, dnsmessage.RCode, bool) {
		m := now.Load()
		if m.all || q.Type == m.silent {
			return nil, 0, false
		}
		if m.code != 0 {
			return nil, m.code, true
		}
		return &[4]byte{127, 0, 0, 1}, 0, true
	})
	server := runtest.StartServer(t)
	p, release := startHeld(t, fmt.Sprintf("http://web.test:%d/", server.Addr().Port()), "--rate=100", "--baseline=0", "--timeout=300ms", "--join=100ms")
	runtest.WaitFor(t, "50 answers", func() bool { return server.Answered() >= 50 })
	var spans []faultserver.Span
	for _, name := range []string{"NXDOMAIN", "SERVFAIL", "silence", "silence about AAAA"} {
		m := modes[name]
		from := time.Now()
		now.Store(&m)
		runtest.WaitFor(t, "5 failures", func() bool { return p.failedSince(from) >= 5 })
		now.Store(&mode{})
		spans = append(spans, faultserver.Span{From: time.Duration(from.UnixNano()), To: time.Duration(time.Now().UnixNano())})
		well := server.Answered() + 50
		runtest.WaitFor(t, "50 answers more", func() bool { return server.Answered() >= well })
	}
	release()
	s := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}

	met, stray := make([]int, len(spans)), 0
	for _, target := range s.judged() {
		for _, q := range s.failures(target.Name) {
			during := slices.IndexFunc(spans, func(span faultserver.Span) bool {
				return q.Sent <= s.place(span).To && q.Done >= s.place(span).From
			})
			if q.Class.Timeout() { // of a server that shares a busy machine; reused then opens another connection, by name
				continue
			}
			if during < 0 && q.Class == timeline.DNS && s.afterALongStop(q) { // the name server did not run either
				continue
			}
			if q.Class != timeline.DNS || q.DNS == 0 || q.Reused {
				t.Errorf("%s: request %d is %s, after a look-up of %v", target.Name, q.Seq, q.Class, q.DNS.Duration())
			}
			if during < 0 {
				stray++
				continue
			}
			met[during]++
		}
	}
	if slices.Contains(met, 0) || stray > 0 {
		t.Errorf("failures by what the name server did: %v, and %d while it was well", met, stray)
	}
	s.checkAnswered(t, server)
	t.Logf("failures by what the name server did: %v; windows %d", met, len(s.tl.Windows))
}

// Done: the prober may open no file any more, while the service is well. A naive client sees errors of look-ups and
// connects, as if the service were down. Lapse: nothing failed, the time is not observed, and the run is inconclusive.
func TestTruthOfAProberOutOfFileDescriptors(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	nameServer(t, func(dnsmessage.Question) (*[4]byte, dnsmessage.RCode, bool) { return &[4]byte{127, 0, 0, 1}, 0, true })
	server := runtest.StartServer(t)
	port := server.Addr().Port()
	p, release := startHeld(t, fmt.Sprintf("http://web.test:%d/", port), server.URL(), "--rate=100", "--baseline=0", "--timeout=5s", "--fail-if=failed>0") // 5 s: longer than this machine stands still
	runtest.WaitFor(t, "the command to run, and 100 answers", func() bool { return p.wraps() && server.Answered() >= 100 })
	var before unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 4096}, &before); err != nil {
		t.Fatal(err)
	}
	runtest.WaitFor(t, "30 requests that met it", func() bool { return p.met(timeline.Local, 30) })
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 4096}, nil); err != nil {
		t.Fatal(err)
	}
	release()
	s := p.robbed(t, verdict.ExitInconclusive)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	s.checkOwnFault(t)
	s.checkAnswered(t, server)
}

// Done: other programs take all local ports, while the service is well. A naive client sees errors. Lapse: nothing
// failed, the time is not observed, and the run is inconclusive.
func TestTruthOfAProberOutOfPorts(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	const low, high = 40000, 40099
	shell(t, fmt.Sprintf("ip addr add 10.77.0.1/32 dev lo; echo %d %d >/proc/sys/net/ipv4/ip_local_port_range", low, high))
	url := serveAt(t, "10.77.0.1:8080", nil)
	p, release := startHeld(t, url, "--rate=100", "--baseline=0", "--timeout=5s", "--fail-if=failed>0") // as above
	runtest.WaitFor(t, "some requests", func() bool { tl := p.peek(); return tl != nil && tl.Verdict.Sent >= 60 })
	var taken []net.Conn
	for end := time.Now().Add(runtest.Patience); time.Now().Before(end) && !p.met(timeline.Local, 30); time.Sleep(time.Millisecond) {
		for c, err := net.Dial("tcp", "10.77.0.1:8080"); err == nil; c, err = net.Dial("tcp", "10.77.0.1:8080") { // those that were in use become free
			taken = append(taken, c)
		}
	}
	for _, c := range taken {
		_ = c.Close()
	}
	release()
	s := p.robbed(t, verdict.ExitInconclusive)
	s.checkOwnFault(t)
}

// wraps reports whether the command runs by now: it cannot start where no file may be opened.
func (p *process) wraps() bool {
	tl := p.peek()
	return tl != nil && slices.ContainsFunc(tl.Events, func(e model.Event) bool { return e.Kind == timeline.Command })
}

// met reports whether n requests of new connections have ended in a class by now.
func (p *process) met(class timeline.Class, n int) bool {
	tl := p.peek()
	return tl != nil && slices.ContainsFunc(tl.Targets, func(t model.Target) bool {
		return t.Kind == timeline.New && t.Classes[class.String()] >= n
	})
}

// checkOwnFault demands that nothing failed, that requests of new connections were put down to ourselves, and that
// this is shown as time without data.
func (s *savedRun) checkOwnFault(t *testing.T) {
	t.Helper()
	for _, target := range s.judged() {
		t.Logf("%s: %v, coverage %.3f, unobserved %v", target.Name, target.Classes, target.Coverage, s.unobserved(target.Name))
		if target.Failed > 0 {
			t.Errorf("%s: %v", target.Name, target.Classes)
		}
		if target.Kind != timeline.New {
			continue
		}
		if target.Classes[timeline.Local.String()] < 20 || target.Coverage >= model.MinCoverage {
			t.Errorf("%s: %v, coverage %v", target.Name, target.Classes, target.Coverage)
		}
		// Where the prober was stopped as well, the two are one period, told by that.
		ours := func(u model.Unobserved) bool { return u.Reason == "local fault" || u.Reason == "prober stalled" }
		if !slices.ContainsFunc(s.unobserved(target.Name), ours) {
			t.Errorf("%s: no time is unobserved for a fault of our own: %v", target.Name, s.unobserved(target.Name))
		}
	}
	var table strings.Builder
	if code := cli.Main(t.Context(), []string{"lapse", "report", s.dir, "-v"}, &table, t.Output()); code != verdict.ExitInconclusive || !strings.Contains(table.String(), "no data") {
		t.Errorf("exit code %d, and the table draws no time without data:\n%s", code, table.String())
	}
}

// serveAt serves an address until the test ends.
func serveAt(t *testing.T, addr string, state func(net.Conn, http.ConnState)) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ConnState: state, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "hello") })}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return "http://" + addr + "/"
}

// place puts what was noted in nanoseconds of the wall clock on the run's clock.
func (s *savedRun) place(wall faultserver.Span) faultserver.Span {
	t0 := time.Duration(s.tl.T0.UnixNano())
	return faultserver.Span{From: wall.From - t0, To: wall.To - t0}
}

// holds reports whether a window's brackets, where they are not open, hold when a fault began and ended.
func holds(w model.Window, from, to faultserver.Span) bool {
	return (w.Open.Start || w.Start.Earliest <= from.To) && from.From <= w.Start.Latest && w.End.Earliest <= to.To && (w.Open.End || to.From <= w.End.Latest)
}
