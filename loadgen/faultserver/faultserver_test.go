package faultserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/internal/layer"
)

// get asks as a client without a connection pool does.
func get(url string) (status int, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func start(t *testing.T, faults ...Fault) *Server {
	t.Helper()
	s, err := Start(Config{Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFaultsAreWhatTheySay(t *testing.T) {
	tests := []struct {
		kind   Kind
		status int
		err    func(error) bool
	}{
		{Reset, 0, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{EOF, 0, func(err error) bool { return errors.Is(err, io.EOF) }},
		{Truncate, 200, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{Error, 503, func(err error) bool { return err == nil }},
		{Goodbye, 200, func(err error) bool { return err == nil }},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			s := start(t, Fault{Kind: test.kind, To: time.Hour})
			status, err := get(s.URL())
			if status != test.status || !test.err(err) {
				t.Errorf("status %d, %v", status, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			acts := s.Acts()
			if len(acts) != 1 || acts[0].Kind != test.kind || acts[0].Conn != 1 || acts[0].At <= 0 {
				t.Errorf("acts %+v", acts)
			}
			good := 0
			if test.kind == Goodbye {
				good = 1
			}
			if s.Answered() != good {
				t.Errorf("%d answered", s.Answered())
			}
		})
	}
}

func TestSlowAndStallDelayTheAnswer(t *testing.T) {
	t0 := time.Now()
	s, err := Start(Config{T0: t0, Faults: []Fault{
		{Kind: Stall, To: 100 * time.Millisecond},
		{Kind: Slow, From: 100 * time.Millisecond, To: time.Hour, Delay: 50 * time.Millisecond},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if status, err := get(s.URL()); status != 200 || err != nil || time.Since(t0) < 100*time.Millisecond {
		t.Errorf("%d, %v after %v", status, err, time.Since(t0))
	}
	asked := time.Now()
	if status, err := get(s.URL()); status != 200 || err != nil || time.Since(asked) < 50*time.Millisecond {
		t.Errorf("%d, %v after %v", status, err, time.Since(asked))
	}
	if s.Count(Stall) != 1 || s.Count(Slow) != 1 {
		t.Errorf("acts %+v", s.Acts())
	}
}

func TestNobodyListensInAnOutage(t *testing.T) {
	t0 := time.Now()
	s, err := Start(Config{T0: t0})
	if err != nil {
		t.Fatal(err)
	}
	held, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for s.Accepted() == 0 { // what is reset before it is accepted is no connection
		runtime.Gosched()
	}
	shut := time.Since(t0)
	reopen := s.Refuse()
	refused := time.Since(t0)
	if _, err := get(s.URL()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("in the outage: %v", err)
	}
	again := time.Since(t0)
	reopen()
	opened := time.Since(t0)
	if _, err := held.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection in the outage: %v", err)
	}
	if status, err := get(s.URL()); status != 200 || err != nil {
		t.Errorf("after the outage: %d, %v", status, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := s.Outages()[0]
	if o.Close.From < shut || o.Close.To > refused || o.Open.From < again || o.Open.To > opened {
		t.Errorf("shut from %v to %v and reopened from %v to %v, in its books %+v", shut, refused, again, opened, o)
	}
}

func TestAnOutageComesAndGoesBySchedule(t *testing.T) {
	s := start(t, Fault{Kind: Refuse, From: 20 * time.Millisecond, To: 50 * time.Millisecond})
	for len(s.Outages()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if status, err := get(s.URL()); status != 200 || err != nil {
		t.Errorf("after the outage: %d, %v", status, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if o := s.Outages()[0]; o.Close.From < 20*time.Millisecond || o.Close.To > o.Open.From || o.Open.To < 50*time.Millisecond {
		t.Errorf("%+v", o)
	}
}

func TestFaultsMeetWhomTheyShall(t *testing.T) {
	s := start(t, Fault{Kind: Error, To: time.Hour, Every: 3})
	var got strings.Builder
	for range 9 {
		status, err := get(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&got, status/100, " ")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got.String() != "2 2 5 2 2 5 2 2 5 " || s.Answered() != 6 {
		t.Errorf("%s: %d answered", got.String(), s.Answered())
	}
	s = start(t, Fault{Kind: Error, To: time.Hour, After: 2})
	got.Reset()
	for range 4 {
		status, err := get(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&got, status/100, " ")
	}
	s.Close()
	if got.String() != "2 2 5 5 " {
		t.Errorf("after 2: %s", got.String())
	}
	counts := map[int]bool{}
	for range 2 {
		s, err := Start(Config{Seed: 7, Faults: []Fault{{Kind: Error, To: time.Hour, Share: 0.5}}})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := get(s.URL()); err != nil {
				t.Fatal(err)
			}
		}
		counts[s.Count(Error)] = true
		s.Close()
		if n := s.Count(Error); n < 8 || n > 32 {
			t.Errorf("%d of 40 at a share of a half", n)
		}
	}
	if len(counts) != 1 {
		t.Errorf("one seed, different choices: %v", counts)
	}
}

// A stall that outlasts its clients keeps none of their connections: each is a file, and a process may open so many
// only.
func TestAStallLetsGoOfClientsThatLeft(t *testing.T) {
	s := start(t, Fault{Kind: Stall, To: time.Hour})
	defer s.Close()
	for i := range 3 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n")
		for s.Count(Stall) <= i {
			runtime.Gosched()
		}
		c.Close()
	}
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns)
	}
	for deadline := time.Now().Add(10 * time.Second); open() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections of clients that left are still open", open())
		}
	}
}

// Connections that come and go in a stall do not delay the answers of those that stay.
func TestAStallAnswersWhoStayed(t *testing.T) {
	layer.Real(t)
	t0 := time.Now()
	s, err := Start(Config{T0: t0, Faults: []Fault{
		{Kind: Stall, To: 100 * time.Millisecond}, {Kind: Stall, From: 100 * time.Millisecond, To: 200 * time.Millisecond},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if status, err := get(s.URL()); status != 200 || err != nil || time.Since(t0) < 100*time.Millisecond {
				t.Errorf("%d, %v after %v", status, err, time.Since(t0))
			}
			if status, err := get(s.URL()); status != 200 || err != nil || time.Since(t0) < 200*time.Millisecond {
				t.Errorf("%d, %v after %v", status, err, time.Since(t0))
			}
		})
	}
	clients.Wait()
}

// A shortListener has no room for the first connection.
type shortListener struct {
	net.Listener
	short bool
}

func (l *shortListener) Accept() (net.Conn, error) {
	if !l.short {
		l.short = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestWhoCannotAcceptSaysSoAndTriesAgain(t *testing.T) {
	s := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() { s.accept(&shortListener{Listener: listener}) })
	status, getErr := get("http://" + listener.Addr().String())
	listener.Close()
	if err := s.Close(); status != 200 || getErr != nil || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%d, %v; the server says: %v", status, getErr, err)
	}
}
