package loadgen

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// changes checks what is promised of changes of held connections. The caller holds mu.
func (f *facts) changes(b timeline.HeldBatch) {
	if b.FirstSeq != uint64(len(f.held)) {
		f.t.Errorf("held changes begin with %d, want %d", b.FirstSeq, len(f.held))
	}
	for _, c := range b.Changes {
		switch {
		case c.At < f.watermarks[c.Target]:
			f.t.Errorf("%+v comes after watermark %v", c, f.watermarks[c.Target])
		case c.From > c.At || c.Answered != 0 && (c.Answered < c.From || c.Answered > c.At):
			f.t.Errorf("%+v has its instants out of order", c)
		case c.Backend != 0 && f.backends[c.Backend] == "":
			f.t.Errorf("backend %d is used before it is named", c.Backend)
		}
		if i := slices.IndexFunc(f.held, func(o timeline.HeldChange) bool { return o.Target == c.Target && o.Conn == c.Conn }); i >= 0 {
			last := f.lives(c.Target)[c.Conn]
			stood := last[len(last)-1].Kind == timeline.HeldOpened
			if wants := c.Kind == timeline.HeldCut || c.Kind == timeline.HeldClosed; stood != wants {
				f.t.Errorf("%+v after %+v", c, last[len(last)-1])
			}
		}
		f.held = append(f.held, c)
	}
}

// lives returns the changes of each of a target's connections, in order.
func (f *facts) lives(id timeline.TargetID) map[uint32][]timeline.HeldChange {
	lives := map[uint32][]timeline.HeldChange{}
	for _, c := range f.held {
		if c.Target == id {
			lives[c.Conn] = append(lives[c.Conn], c)
		}
	}
	return lives
}

func (f *facts) heldCount(kind timeline.HeldKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.held {
		if c.Kind == kind {
			n++
		}
	}
	return n
}

func heldProbe(url string, conns int, beat time.Duration) Probe {
	p := probe(1, timeline.Held, url, float64(conns)/beat.Seconds())
	p.Connections = conns
	return p
}

// Every cut that the server made is on record, once, of its kind, with the instant of the cut between its bounds; and
// nothing else is.
func TestCutsOfHeldConnectionsAreThoseTheServerMade(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const conns = 20
	config, roots := testTLS(t)
	for name, config := range map[string]faultserver.Config{"plain": {}, "TLS": {TLS: config},
		"HTTP/2": {Protocol: "h2c"}, "gRPC": {Protocol: "grpc"}, "WebSocket": {Protocol: "ws"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			config.T0, config.Name, config.Number = clock.T0(), "pod", true
			s := loadtest.Serve(t, config)
			p := heldProbe(s.URL(), conns, 200*time.Millisecond)
			p.RootCAs = roots
			opened := 0
			f := run(t, clock, func(_ *Prober, f *facts) {
				stand := func(n int) {
					opened += n
					loadtest.WaitFor(t, fmt.Sprint(opened, " openings"), func() bool { return f.heldCount(timeline.HeldOpened) == opened })
				}
				stand(conns)
				for round := range 4 {
					loadtest.WaitFor(t, "a heartbeat on each", func() bool { return f.count(1) >= (round+1)*2*conns })
					stand(len(s.Cut([]faultserver.Kind{faultserver.EOF, faultserver.Reset}[round%2], 3)))
				}
			}, p)
			loadtest.Close(t, s)
			known := map[string]timeline.HeldChange{}
			for _, c := range f.held {
				if c.Kind == timeline.HeldCut {
					known[f.backends[c.Backend]] = c
				}
			}
			made := s.Cuts()
			if len(known) != len(made) || len(made) != 4*(conns/3) || f.heldCount(timeline.HeldCut) != len(made) {
				t.Errorf("%d connections have a cut on record, in all %d; %d were made", len(known),
					f.heldCount(timeline.HeldCut), len(made))
			}
			for _, cut := range made {
				c := known[cut.Name]
				want := map[faultserver.Kind]timeline.Class{faultserver.EOF: timeline.EOF, faultserver.Reset: timeline.Reset}[cut.Kind]
				if c.Class != want || c.Warned || c.From > cut.At.To || c.At < cut.At.From {
					t.Errorf("%+v is on record as %+v", cut, c)
				}
			}
			if n, accepted := f.heldCount(timeline.HeldOpened), s.Accepted(); n != accepted {
				t.Errorf("%d openings, the server accepted %d", n, accepted)
			}
			if n := f.heldCount(timeline.HeldClosed); n != conns {
				t.Errorf("%d connections were closed at the end, want %d", n, conns)
			}
		})
	}
}

// A connection that is announced to end was warned; its client does not wait for the end.
func TestAnAnnouncedEndIsAWarning(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{{Kind: faultserver.Goodbye, From: 200 * time.Millisecond, To: time.Minute, Every: 7}}})
	f := runOn(t, clock, "5 cuts", func(f *facts) bool { return f.heldCount(timeline.HeldCut) >= 5 }, heldProbe(s.URL(), 5, 50*time.Millisecond))
	loadtest.Close(t, s)
	announced := s.Count(faultserver.Goodbye)
	if cut, refused := f.heldCount(timeline.HeldCut), f.heldCount(timeline.HeldFailed); cut+refused != announced {
		t.Errorf("%d were cut and %d not kept, the server announced %d ends", cut, refused, announced)
	}
	for _, c := range f.held {
		if c.Kind == timeline.HeldCut && (!c.Warned || c.Class != timeline.EOF) {
			t.Errorf("%+v was not warned", c)
		}
	}
	if n := failed(f.of(1)) - classes(f.of(1))[timeline.NoSlot]; n > 0 {
		t.Errorf("%d heartbeats failed that were answered", n)
	}
}

// A server that answers late has cut nothing: its connections stay, and are not opened anew.
func TestALateAnswerIsNoCut(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const conns = 8
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	p := heldProbe(s.URL(), conns, 2*time.Second)
	p.Timeout = 50 * time.Millisecond
	f := run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "the connections", func() bool { return f.heldCount(timeline.HeldOpened) == conns })
		answer := s.Stall()
		loadtest.WaitFor(t, "a heartbeat that timed out", func() bool { return f.ended(1, timeline.TimeoutResponse) >= 2 })
		answer()
		n := f.observed(1)
		loadtest.WaitFor(t, "a round of heartbeats", func() bool { return f.observed(1) >= n+conns+2 })
	}, p)
	loadtest.Close(t, s)
	if cut, opened := f.heldCount(timeline.HeldCut), f.heldCount(timeline.HeldOpened); cut > 0 || opened != conns ||
		s.Accepted() != conns {
		t.Errorf("%d cut, %d opened, %d accepted, want %d kept", cut, opened, s.Accepted(), conns)
	}
	if good := classes(f.of(1))[timeline.OK]; good < conns {
		t.Errorf("%d heartbeats were answered", good)
	}
}

// A server that leaves a heartbeat unanswered for as long as until the next is due is silent: the connection is given
// up, and every attempt to open it again is on record.
func TestSilenceCuts(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const conns = 4
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	p := heldProbe(s.URL(), conns, 100*time.Millisecond)
	p.Timeout = 50 * time.Millisecond
	var silent time.Duration
	f := run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "the connections", func() bool { return f.heldCount(timeline.HeldOpened) >= conns })
		silent = clock.Now()
		answer := s.Stall()
		loadtest.WaitFor(t, "all to be cut", func() bool {
			return f.heldCount(timeline.HeldCut) >= conns && f.heldCount(timeline.HeldFailed) >= 2*conns
		})
		answer()
		loadtest.WaitFor(t, "all to stand again", func() bool { return f.heldCount(timeline.HeldOpened) >= 2*conns })
	}, p)
	loadtest.Close(t, s)
	for _, c := range f.held {
		if c.Kind == timeline.HeldCut && !c.Stopped && (c.Class != timeline.TimeoutResponse || c.At < silent) {
			t.Errorf("%+v, the server was silent from %v on", c, silent)
		}
	}
	attempts := f.heldCount(timeline.HeldOpened) + f.heldCount(timeline.HeldFailed)
	if accepted := s.Accepted(); attempts != accepted {
		t.Errorf("%d attempts are on record, the server accepted %d", attempts, accepted)
	}
}

// Where nobody listens, attempts follow each other more and more slowly, and each is on record as refused.
func TestAttemptsAreCountedAndBackOff(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	f := run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "the connection", func() bool { return f.heldCount(timeline.HeldOpened) == 1 })
		reopen := s.Refuse()
		loadtest.WaitFor(t, "attempts", func() bool { return f.heldCount(timeline.HeldFailed) >= 5 })
		reopen()
		loadtest.WaitFor(t, "the connection again", func() bool { return f.heldCount(timeline.HeldOpened) == 2 })
	}, heldProbe(s.URL(), 1, time.Second))
	loadtest.Close(t, s)
	var before timeline.HeldChange
	n := 0
	for _, c := range f.held {
		if c.Kind == timeline.HeldFailed {
			if c.Class != timeline.Refused && c.Class != timeline.Reset {
				t.Errorf("%+v, nobody listened", c)
			}
			least := time.Duration(0)
			if n > 0 {
				least = min(10*ms<<(n-1), time.Second) / 2
			}
			if c.From-before.At < least {
				t.Errorf("attempt %d began %v after the one before, want %v at least", n, c.From-before.At, least)
			}
			n++
		}
		before = c
	}
}

// A connection that is closed while its heartbeat has had no answer is on record as one of which nothing is known.
func TestAConnectionThatIsSilentAtTheEndIsNotTakenForAlive(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const conns = 4
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	p := heldProbe(s.URL(), conns, 2*time.Second)
	p.Timeout = 50 * time.Millisecond
	f := run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "the connections", func() bool { return f.heldCount(timeline.HeldOpened) == conns })
		s.Stall()
		loadtest.WaitFor(t, "a heartbeat that timed out", func() bool { return f.ended(1, timeline.TimeoutResponse) >= 1 })
	}, p)
	loadtest.Close(t, s)
	silent := 0
	for _, c := range f.held {
		if c.Kind == timeline.HeldClosed && c.Class == timeline.TimeoutResponse {
			silent++
		}
	}
	if timedOut := f.ended(1, timeline.TimeoutResponse); silent == 0 || silent > timedOut ||
		f.heldCount(timeline.HeldClosed) != conns {
		t.Errorf("%d of %d connections were closed as silent, %d heartbeats timed out", silent,
			f.heldCount(timeline.HeldClosed), timedOut)
	}
}
