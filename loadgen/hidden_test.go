package loadgen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// What hides failures is found: the server does to every request what a row says, a client that looks at no more than
// errors and status codes sees what naive says, and Lapse must say what new and reused say. A client that asks
// twice reuses its connection where the server lets it.
func TestWhatHidesFailuresIsFound(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nwelcome"
	ok, body, eof, reset, late := timeline.OK, timeline.Body, timeline.EOF, timeline.Reset, timeline.TimeoutResponse
	only200, err := ParseStatuses("200")
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		did    string
		serve  script
		expect Probe // --expect-status, --expect-body
		naive  string
		new    timeline.Class
		reused timeline.Class // of requests on a connection that carried one before
		says   string         // the error's text, where the class does not tell what is wrong
	}{
		{did: "answers well", serve: says(whole), naive: "200", new: ok, reused: ok},
		{did: "closes within a body of known length", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nwel", hangUp), naive: "200", new: body, says: `body: reply ended within its body`},
		{did: "closes right after the header", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", hangUp), naive: "200", new: body, says: `body: reply ended within its body`},
		{did: "closes within a chunk", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nwel", hangUp), naive: "200", new: body, says: `body: reply ended within its body`},
		{did: "closes before the last chunk", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nwelcome\r\n", hangUp), naive: "200", new: body, says: `body: reply ended within its body`},
		{did: "resets within the body", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nwel", pause, sendRST), naive: "200", new: reset},
		{did: "never ends the body", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nwel", stay, hangUp), naive: "200", new: late},
		{did: "answers late", serve: says(stay, whole), naive: "200", new: late},
		{did: "answers with another body", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsorry"), expect: Probe{ExpectBody: "welcome"}, naive: "200", new: body, reused: body, says: `body: the body lacks "welcome"`},
		{did: "answers with an empty body", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), expect: Probe{ExpectBody: "welcome"}, naive: "200", new: body, reused: body, says: `body: the body lacks "welcome"`},
		{did: "redirects to an apology", serve: says("HTTP/1.1 302 Found\r\nLocation: /0\r\nContent-Length: 0\r\n\r\n"), expect: Probe{ExpectStatus: only200}, naive: "200", new: body, reused: body, says: `body: status 302 Found`},
		{did: "answers 204 where 200 is expected", serve: says("HTTP/1.1 204 No Content\r\n\r\n"), expect: Probe{ExpectStatus: only200}, naive: "204", new: body, reused: body, says: `body: status 204 No Content`},
		{did: "answers 503, whole", serve: says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"), naive: "503", new: timeline.HTTP5xx, reused: timeline.HTTP5xx, says: `http_5xx: status 503 Service Unavailable`},
		{did: "answers 404, whole", serve: says("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), naive: "404", new: timeline.HTTP4xx, reused: timeline.HTTP4xx, says: `http_4xx: status 404 Not Found`},
		{did: "speaks another protocol", serve: says("SSH-2.0-OpenSSH_9.2\r\n", hangUp), naive: "error", new: body, says: `body: malformed reply: no HTTP/1 status line`},
		{did: "closes without a reply", serve: says(hangUp), naive: "error", new: eof},
		{did: "closes a reused connection without a reply", serve: every(2, says(hangUp), says(whole)), naive: "200", new: ok, reused: eof},
		{did: "resets a reused connection", serve: every(2, says(sendRST), says(whole)), naive: "200", new: ok, reused: reset},
		{did: "answers twice", serve: says(whole + "HTTP/1.1 500 Whose?\r\nContent-Length: 0\r\n\r\n"), naive: "200", new: ok, reused: ok},
	}
	var scripts []script
	for _, row := range rows {
		scripts = append(scripts, row.serve)
	}
	url := serveScripts(t, scripts)

	var probes []Probe
	for i, row := range rows {
		for j, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			p := probe(timeline.TargetID(2*i+j+1), kind, fmt.Sprint(url, "/", i), 10)
			p.Timeout, p.Connections, p.MaxConnections = stayFor/2, 1, 100
			p.ExpectBody, p.ExpectStatus = row.expect.ExpectBody, row.expect.ExpectStatus
			probes = append(probes, p)
		}
	}
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "8 observed requests per target", func() bool {
			for i := range probes {
				if f.observed(timeline.TargetID(i+1)) < 8 {
					return false
				}
			}
			return true
		})
	}, probes...)

	naive := make([]string, len(rows))
	var looking sync.WaitGroup
	for i := range rows {
		looking.Go(func() { naive[i] = naiveView(t, fmt.Sprint(url, "/", i)) })
	}
	looking.Wait()
	for i, row := range rows {
		for _, p := range probes[2*i : 2*i+2] {
			if got := strings.Join(f.blames(p.Name), "; "); got != row.says {
				t.Errorf("the server %s: %s failed by %q, want %q", row.did, p.Kind, got, row.says)
			}
		}
		if naive[i] != row.naive {
			t.Errorf("the server %s: a naive client sees %q, want %q", row.did, naive[i], row.naive)
		}
		asked, seen := 0, 0
		for _, r := range append(f.of(timeline.TargetID(2*i+1)), f.of(timeline.TargetID(2*i+2))...) {
			want := row.new
			if r.Reused {
				want = row.reused
			}
			// a timeout can be this machine's, where the server runs too
			if r.Class.Observed() && r.Class != want && !r.Class.Timeout() {
				t.Errorf("the server %s: request %d, reused %v, is %s, want %s", row.did, r.Seq, r.Reused, r.Class,
					want)
			}
			if r.Class.Observed() && (r.Class == want || !r.Class.Timeout()) {
				asked++
			}
			if r.Class == want {
				seen++
			}
		}
		if seen == 0 || seen < asked/2 {
			t.Errorf("the server %s: seen by %d requests of %d", row.did, seen, asked)
		}
	}
}

// naiveView returns what a client sees that asks twice and heeds nothing but the error and the status code: "error",
// or the second answer's status.
func naiveView(t *testing.T, url string) (seen string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 2 {
		resp, err := client.Get(url)
		if err != nil {
			seen = "error"
			continue
		}
		seen = fmt.Sprint(resp.StatusCode)
		// so that the connection can be used again; the error is not looked at
		_, _ = io.CopyN(io.Discard, resp.Body, 7)
		_ = resp.Body.Close()
	}
	return seen
}

// A script answers the nth request, from 1, of a connection, and reports whether the connection goes on.
type script func(c *net.TCPConn, n int) bool

// stayFor is how long a scripted server lets wait that comes too late.
const stayFor = 1600 * time.Millisecond

// What a script does beside writing.
const (
	hangUp  = "\x00close"
	sendRST = "\x00reset"
	stay    = "\x00stay"
	pause   = "\x00pause" // long enough for what was written before to be read by itself
)

// says does one thing after another: writes a text, or what one of the constants says.
func says(things ...string) script {
	return func(c *net.TCPConn, _ int) bool {
		for _, thing := range things {
			switch thing {
			case hangUp:
				return false
			case sendRST:
				_ = c.SetLinger(0)
				return false
			case stay:
				time.Sleep(stayFor) // how long it takes is the scenario
			case pause:
				time.Sleep(20 * time.Millisecond)
			default:
				if _, err := io.WriteString(c, thing); err != nil {
					return false
				}
			}
		}
		return true
	}
}

// every answers each nth request of a connection one way, and the others another way.
func every(nth int, one, others script) script {
	return func(c *net.TCPConn, n int) bool {
		if n%nth == 0 {
			return one(c, n)
		}
		return others(c, n)
	}
}

// serveScripts serves each script at the path of its number until the test ends, and returns the server's URL.
func serveScripts(t *testing.T, scripts []script) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			serving.Go(func() { follow(c.(*net.TCPConn), scripts) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "http://" + listener.Addr().String()
}

// follow answers the requests of one connection as the scripts say.
func follow(c *net.TCPConn, scripts []script) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	requests := bufio.NewReader(c)
	for n := 1; ; n++ {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		number := 0
		_, _ = fmt.Sscanf(request.URL.Path, "/%d", &number)
		if !scripts[number](c, n) || request.Close {
			return
		}
	}
}

// A reply that comes after its request has timed out is never taken for the next one's, nor is one that nobody asked
// for. The server says of each answer which request it answers, and when that was read.
func TestLateRepliesAreNeverBookedToTheNextRequest(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const timeout = 60 * time.Millisecond
	var mu sync.Mutex
	answers := map[string]time.Duration{} // how long each took, from when its request was read
	read := 0
	url := serveScripts(t, []script{func(c *net.TCPConn, n int) bool {
		mu.Lock()
		read++
		name := fmt.Sprint("answer to request ", read)
		// Most answers come within 4 ms of the timeout, on either side of it; some at once, so that connections get
		// reused.
		took := timeout + time.Duration(read%9-4)*time.Millisecond
		if read%5 == 0 {
			took = 0
		}
		answers[name] = took
		mu.Unlock()
		time.Sleep(took)
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Pod: %s\r\nContent-Length: 7\r\n\r\nwelcome", name)
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 50)
	p.Timeout, p.Connections = timeout, 4
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "80 requests, some in time and some not", func() bool {
			return f.count(1) >= 80 && f.ended(1, timeline.OK) > 0 && f.ended(1, timeline.TimeoutResponse) > 0
		})
	}, p)

	mu.Lock() // the last answers may still be under way to connections that were given up
	defer mu.Unlock()
	booked := map[uint16]bool{}
	for _, r := range f.of(1) {
		if r.Class != timeline.OK {
			// no_slot: so many wait for late answers
			if !r.Class.Timeout() && r.Class != timeline.NoSlot && r.Class.Observed() {
				t.Errorf("request %d is %s", r.Seq, r.Class)
			}
			continue
		}
		name := f.backends[r.Backend]
		if booked[r.Backend] {
			t.Errorf("request %d was given the %s, which another had been given", r.Seq, name)
		}
		booked[r.Backend] = true
		if took := r.Done - r.Sent; took < answers[name] {
			t.Errorf("request %d was given the %s after %v, which took %v: it is another's", r.Seq, name, took,
				answers[name])
		}
	}
	n := classes(f.of(1))
	t.Logf("%v, %d requests read", n, read)
	if sent := len(f.of(1)) - n[timeline.NotSent]; read > sent {
		t.Errorf("%d requests were read, %d sent: some twice", read, sent)
	}
}
