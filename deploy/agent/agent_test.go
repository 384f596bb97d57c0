package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/internal/hint"
	"lapse/internal/record"
	"lapse/timeline"
)

// A fakeRun is a run behind the agent's API.
type fakeRun struct {
	*Recording
	path  string
	clock timeline.Clock

	mu     sync.Mutex
	phase  timeline.Phase
	events []timeline.Event
	told   []string // what the workstation asked for
}

func newFakeRun(t *testing.T) *fakeRun {
	path := filepath.Join(t.TempDir(), "run.lapse")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return &fakeRun{Recording: NewRecording(path), path: path, clock: timeline.StartClock(), phase: "measuring"}
}

// record appends to the recording what readers may then read.
func (r *fakeRun) record(t *testing.T, text string) {
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Error(err)
	}
	r.Grow(r.Receipt().Length + int64(len(text)))
}

func (r *fakeRun) end(t *testing.T) record.Receipt {
	receipt, err := r.End()
	if err != nil {
		t.Error(err)
	}
	r.setPhase(timeline.PhaseEnded)
	return receipt
}

func (r *fakeRun) setPhase(phase timeline.Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

func (r *fakeRun) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	receipt := r.Receipt()
	return Status{ID: "x7k2p", Version: "test", Phase: r.phase, Now: r.Now(), Size: receipt.Length, SHA256: receipt.SHA256}
}

func (r *fakeRun) Now() time.Duration { return r.clock.Now() }

func (r *fakeRun) Event(event timeline.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if event.Kind == "" {
		return errors.New("event without a kind")
	}
	r.events = append(r.events, event)
	return nil
}

func (r *fakeRun) tell(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprintf(format, args...))
	return nil
}

func (r *fakeRun) SignOfLife()                { _ = r.tell("alive") }
func (r *fakeRun) Settle(reason string) error { return r.tell("settle: %s", reason) }
func (r *fakeRun) Abort(reason string) error  { return r.tell("abort: %s", reason) }

func (r *fakeRun) Ack(receipt record.Receipt) error {
	if receipt != r.Receipt() {
		return errors.New("not this recording")
	}
	return r.tell("ack")
}

// A memoryNet is a network of pipes, so that real HTTP runs in virtual time. Its connections can be
// made to break.
type memoryNet struct {
	accepted chan net.Conn
	closed   chan struct{}

	mu    sync.Mutex
	dials int
	// wrap changes the client's end of the nth connection, counted from 1; an error fails the dial.
	wrap func(n int, conn net.Conn) (net.Conn, error)
}

func newMemoryNet() *memoryNet {
	return &memoryNet{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (m *memoryNet) Accept() (net.Conn, error) {
	select {
	case conn := <-m.accepted:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memoryNet) Close() error   { close(m.closed); return nil }
func (m *memoryNet) Addr() net.Addr { return podAddr{DefaultPort} }

func (m *memoryNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.accepted <- far:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dials++
	if m.wrap == nil {
		return near, nil
	}
	conn, err := m.wrap(m.dials, near)
	if err != nil {
		near.Close()
	}
	return conn, err
}

// cutAfter breaks a connection after it brought n bytes.
type cutAfter struct {
	net.Conn
	left int
}

func (c *cutAfter) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// inVirtualTime serves run's API in a bubble and calls test with a client of it.
func inVirtualTime(t *testing.T, test func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet)) {
	synctest.Test(t, func(t *testing.T) {
		run, network := newFakeRun(t), newMemoryNet()
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
		server := &http.Server{Handler: newHandler(run, page)}
		var serving sync.WaitGroup
		serving.Go(func() { server.Serve(network) })
		agent := NewClient(network.dial)
		test(t, run, agent, network)
		agent.Close()
		server.Close()
		serving.Wait()
	})
}

func TestStatusTellsHowFarTheRunHasCome(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		time.Sleep(3 * time.Second)
		run.record(t, "facts")
		got, err := agent.Status(t.Context())
		want := Status{ID: "x7k2p", Version: "test", Phase: "measuring", Now: 3 * time.Second, Size: 5}
		if err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}

func TestFollowCopiesTheRecordingWhileItIsWritten(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		ended := make(chan record.Receipt, 1)
		go func() {
			for i := range 10 {
				run.record(t, fmt.Sprintf("block %d\n", i))
				time.Sleep(time.Second)
			}
			ended <- run.end(t)
		}()
		var copied bytes.Buffer
		got, err := agent.Follow(t.Context(), &copied)
		if want := <-ended; err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		checkCopy(t, run, &copied)
		if network.dials != 1 {
			t.Errorf("dialled %d times", network.dials)
		}
	})
}

func TestFollowResumesWhereEveryConnectionBroke(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
			if n%5 == 0 {
				return nil, errors.New("no route to host")
			}
			if n < 40 {
				return &cutAfter{conn, 150 + 7*n}, nil // in the middle of a header, a chunk, anywhere
			}
			return conn, nil
		}
		run.record(t, strings.Repeat("0123456789", 500))
		run.end(t)
		var copied bytes.Buffer
		if _, err := agent.Follow(t.Context(), &copied); err != nil {
			t.Error(err)
		}
		checkCopy(t, run, &copied)
		if network.dials < 10 {
			t.Errorf("dialled only %d times: nothing broke", network.dials)
		}
	})
}

func checkCopy(t *testing.T, run *fakeRun, copied *bytes.Buffer) {
	t.Helper()
	want, err := os.ReadFile(run.path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), copied.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFollowGivesUpASilentConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
			if n == 1 {
				conn.Close()
				silent, _ := net.Pipe() // swallows nothing, says nothing
				return silent, nil
			}
			return conn, nil
		}
		run.record(t, "facts")
		run.end(t)
		started := time.Now()
		var copied bytes.Buffer
		if _, err := agent.Follow(t.Context(), &copied); err != nil {
			t.Error(err)
		}
		checkCopy(t, run, &copied)
		if took := time.Since(started); took < 15*time.Second || took > 20*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestFollowEndsWhenThePodHasGone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
			if n == 1 {
				return &cutAfter{conn, 300}, nil
			}
			return nil, hint.Errorf("`lapse retrieve`", "%w", &GoneError{Pod: "lapse-x7k2p-abcde", Detail: "ended with exit code 0", Ended: true})
		}
		run.record(t, strings.Repeat("facts", 1000))
		var copied bytes.Buffer
		receipt, err := agent.Follow(t.Context(), &copied)
		if _, gone := errors.AsType[*GoneError](err); !gone {
			t.Errorf("error is %v", err)
		}
		if copied.Len() == 0 || receipt.Length != int64(copied.Len()) {
			t.Errorf("receipt %v for %d bytes", receipt, copied.Len())
		}
		if hint.Of(err) != "`lapse retrieve`" {
			t.Errorf("hint %q", hint.Of(err))
		}
		if got := err.Error(); got != "fetch the recording: Pod lapse-x7k2p-abcde ended with exit code 0" {
			t.Errorf("error is %q", got)
		}
	})
}

func TestWhatWasFetchedBeforeIsContinued(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		run.record(t, strings.Repeat("facts", 1000))
		want := run.end(t)
		for _, test := range []struct {
			name, have string
			wantErr    bool
		}{
			{"nothing", "", false},
			{"its beginning", strings.Repeat("facts", 300) + "fa", false},
			{"all of it", strings.Repeat("facts", 1000), false},
			{"another recording's beginning", "other", true},
			{"more than there is", strings.Repeat("facts", 1001), true},
		} {
			var copied bytes.Buffer
			receipt, err := agent.Continue(t.Context(), strings.NewReader(test.have), &copied)
			if (err != nil) != test.wantErr {
				t.Errorf("%s: %v", test.name, err)
			}
			if err == nil && (receipt != want || test.have+copied.String() != strings.Repeat("facts", 1000)) {
				t.Errorf("%s: receipt %v, %d bytes came", test.name, receipt, copied.Len())
			}
		}
	})
}

func TestOnlyTheWorkstationThatRunsTheCommandGivesASignOfLife(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		run.end(t)
		for _, runsCommand := range []bool{false, true} {
			agent.RunsCommand, run.told = runsCommand, nil
			if _, err := agent.SyncClock(t.Context(), run.clock); err != nil {
				t.Fatal(err)
			}
			if _, err := agent.Follow(t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			if alive := len(run.told) > 0; alive != runsCommand {
				t.Errorf("runs the command: %v, told %v", runsCommand, run.told)
			}
		}
	})
}

func TestFollowRefusesACopyThatDiffers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		run.record(t, "facts as recorded")
		run.end(t)
		if err := os.WriteFile(run.path, []byte("facts as damaged "), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := agent.Follow(t.Context(), io.Discard)
		if _, ok := errors.AsType[*ChecksumError](err); !ok {
			t.Errorf("error is %v", err)
		}
		if !strings.Contains(err.Error()+hint.Of(err), "retrieve") {
			t.Errorf("%v, hint %q", err, hint.Of(err))
		}
	})
}

func TestFollowStopsWhenTheCopyCannotBeKept(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		run.record(t, "facts")
		full := errors.New("no space left on device")
		_, err := agent.Follow(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full }))
		if !errors.Is(err, full) || network.dials != 1 {
			t.Errorf("error is %v after %d connections", err, network.dials)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestFollowEndsWithItsContext(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		run.record(t, "facts")
		receipt, err := agent.Follow(ctx, io.Discard)
		if !errors.Is(err, context.DeadlineExceeded) || receipt.Length != 5 {
			t.Errorf("got %v, %v", receipt, err)
		}
	})
}

func TestEventsArriveOnceThoughTheirAnswerGotLost(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
			if n <= 2 {
				return &cutAfter{conn, 10}, nil // the request gets there, its answer does not come back
			}
			return conn, nil
		}
		sent := []timeline.Event{
			{Kind: timeline.Command, To: "running", Since: time.Second, Seen: 2 * time.Second},
			{Kind: timeline.CommandOutput, Detail: "node/a cordoned", Seen: 3 * time.Second},
		}
		if err := agent.Send(t.Context(), sent...); err != nil {
			t.Error(err)
		}
		if network.dials < 3 {
			t.Errorf("dialled %d times: nothing got lost", network.dials)
		}
		last := timeline.Event{Kind: timeline.Command, To: "exited", Seen: 4 * time.Second}
		if err := agent.Send(t.Context(), last); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(append(sent, last), run.events, cmp.Comparer(sameEvent)); diff != "" {
			t.Error(diff)
		}
	})
}

func sameEvent(a, b timeline.Event) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestTwoClientsNumberTheirEventsIndependently(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		another := NewClient(network.dial)
		defer another.Close()
		for _, client := range []*Client{agent, another} {
			if err := client.Send(t.Context(), timeline.Event{Kind: timeline.CommandOutput, Detail: "line"}); err != nil {
				t.Error(err)
			}
		}
		if len(run.events) != 2 {
			t.Errorf("got %d events", len(run.events))
		}
	})
}

func TestAgentsRefusalIsNotRepeated(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		for what, err := range map[string]error{
			"event of no kind": agent.Send(t.Context(), timeline.Event{}),
			"wrong checksum":   agent.Ack(t.Context(), record.Receipt{Length: 1, SHA256: "00"}),
		} {
			if _, ok := errors.AsType[*RefusedError](err); !ok {
				t.Errorf("%s: error is %v", what, err)
			}
		}
		if len(run.told) > 0 || network.dials > 1 {
			t.Errorf("told %v over %d connections", run.told, network.dials)
		}
	})
}

func TestSettleAbortAndAckReachTheRun(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, _ *memoryNet) {
		run.record(t, "facts")
		receipt := run.end(t)
		err := errors.Join(
			agent.Settle(t.Context(), "command exited 0"),
			agent.Abort(t.Context(), "interrupted"),
			agent.Ack(t.Context(), receipt),
		)
		want := []string{"settle: command exited 0", "abort: interrupted", "ack"}
		if diff := cmp.Diff(want, run.told); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

func TestClockOffsetBracketsTheTruth(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		delay := 40 * time.Millisecond
		network.wrap = func(_ int, conn net.Conn) (net.Conn, error) {
			return &slowConn{Conn: conn, delay: func() time.Duration { delay -= 5 * time.Millisecond; return max(delay, 3*time.Millisecond) }}, nil
		}
		time.Sleep(17 * time.Second)
		local := timeline.StartClock()
		truth := run.Now() - local.Now()
		offset, err := agent.SyncClock(t.Context(), local)
		if err != nil {
			t.Fatal(err)
		}
		if offset.Min > truth || truth > offset.Max {
			t.Errorf("offset %v does not contain %s", offset, truth)
		}
		if offset.Width() > 3*time.Millisecond {
			t.Errorf("width is %s: the quickest exchange took 3 ms", offset.Width())
		}
		since, seen := offset.Place(time.Second, 2*time.Second)
		if since > truth+time.Second || seen < truth+2*time.Second {
			t.Errorf("placed at [%s, %s]", since, seen)
		}
	})
}

func TestComparisonOfClocksIsThatOfTheAttemptThatWasAnswered(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, run *fakeRun, agent *Client, network *memoryNet) {
		network.wrap = func(n int, conn net.Conn) (net.Conn, error) {
			if n <= 5 {
				return nil, errors.New("no route to host")
			}
			return &slowConn{Conn: conn, delay: func() time.Duration { return 3 * time.Millisecond }}, nil
		}
		local := timeline.StartClock()
		truth := run.Now() - local.Now()
		offset, err := agent.Exchange(t.Context(), local)
		if err != nil || local.Now() < time.Second {
			t.Fatalf("after %v: %v", local.Now(), err)
		}
		if offset.Min > truth || truth > offset.Max || offset.Width() > 3*time.Millisecond {
			t.Errorf("offset %v, want %v within 3 ms", offset, truth)
		}
	})
}

// slowConn answers after a delay.
type slowConn struct {
	net.Conn
	delay func() time.Duration
}

func (c *slowConn) Write(p []byte) (int, error) {
	time.Sleep(c.delay())
	return c.Conn.Write(p)
}

func TestNothingHappensBeforeTheRunsZero(t *testing.T) {
	since, seen := timeline.ClockOffset{Min: -2 * time.Second, Max: -time.Second}.Place(time.Second, 3*time.Second)
	if since != 0 || seen != 2*time.Second {
		t.Errorf("placed at [%s, %s]", since, seen)
	}
}

func TestEverythingElseIsThePage(t *testing.T) {
	handler := newHandler(newFakeRun(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page "+r.URL.Path) }))
	for _, path := range []string{"/", "/api/v1/snapshot"} {
		answer := ask1(handler, "GET", "http://127.0.0.1:8089"+path, "")
		if answer.Body.String() != "page "+path {
			t.Errorf("%s: %s", path, answer.Body)
		}
	}
}

func TestBadRequestsAreRefusedAndChangeNothing(t *testing.T) {
	run := newFakeRun(t)
	run.record(t, "facts")
	handler := newHandler(run, nil)
	for _, test := range []struct {
		method, url, body string
		header            [2]string
		want              int
	}{
		{"GET", "http://evil.example/v1/status", "", [2]string{}, 403}, // DNS rebinding
		{"GET", "http://127.0.0.1.evil.example/v1/status", "", [2]string{}, 403},
		{"POST", "http://127.0.0.1:8089/v1/abort", `{}`, [2]string{"Origin", "http://evil.example"}, 403},
		{"POST", "http://127.0.0.1:8089/v1/abort", `{}`, [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"GET", "http://localhost:8089/v1/abort", "", [2]string{}, 405},
		{"POST", "http://localhost/v1/abort", "{", [2]string{}, 400},
		{"POST", "http://localhost/v1/ack", `{"length":"five"}`, [2]string{}, 400},
		{"POST", "http://localhost/v1/events", `[]`, [2]string{}, 400}, // no number
		{"POST", "http://localhost/v1/events", `{`, [2]string{headerFirst, "0"}, 400},
		{"GET", "http://localhost/v1/facts?offset=-1", "", [2]string{}, 400},
		{"GET", "http://localhost/v1/facts?offset=x", "", [2]string{}, 400},
		{"GET", "http://localhost/v1/facts?offset=6", "", [2]string{}, 416},
		{"GET", "http://localhost/v1/nothing", "", [2]string{}, 404},
	} {
		answer := ask1(handler, test.method, test.url, test.body, test.header)
		if answer.Code != test.want {
			t.Errorf("%s %s %v: %d %s; want %d", test.method, test.url, test.header, answer.Code, answer.Body, test.want)
		}
	}
	if len(run.told)+len(run.events) > 0 {
		t.Errorf("told %v, events %v", run.told, run.events)
	}
}

func TestLocalNamesAreServed(t *testing.T) {
	handler := newHandler(newFakeRun(t), nil)
	for _, host := range []string{"localhost", "localhost:8089", "127.0.0.1:1", "127.0.0.1", "[::1]:8089", "[::1]"} {
		if answer := ask1(handler, "GET", "http://"+host+"/v1/clock", ""); answer.Code != 200 {
			t.Errorf("%s: %d %s", host, answer.Code, answer.Body)
		}
	}
}

func ask1(handler http.Handler, method, url, body string, headers ...[2]string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, url, strings.NewReader(body))
	for _, header := range headers {
		if header[0] != "" {
			request.Header.Set(header[0], header[1])
		}
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestRecordingShorterThanSaidBreaksTheStreamOff(t *testing.T) {
	run := newFakeRun(t)
	run.record(t, "facts")
	run.Grow(100)
	facts, err := run.Facts(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	got, err := io.ReadAll(facts)
	if string(got) != "facts" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestStreamThatFailsInTheAgentDoesNotLookComplete(t *testing.T) {
	run := newFakeRun(t)
	run.record(t, "facts")
	run.Grow(100) // the file has less: reading on fails
	server := httptest.NewServer(newHandler(run, nil))
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/v1/facts")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("read %q without an error", got)
	}
}
