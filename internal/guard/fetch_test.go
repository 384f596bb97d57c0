package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/model"
	"lapse/internal/guard/gate"
	"lapse/internal/guard/store"
	"lapse/internal/history"
	"lapse/internal/run/saved"
)

// A pipes is a listener of connections in memory, whose deadlines are of virtual time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A history and a recording are read whole over a slow link. Who does not read, or takes for ever, is cut off.
func TestALongAnswerMayTakeLong(t *testing.T) {
	const (
		long    = 600_000
		endless = 10_000_000
	)
	for name, test := range map[string]struct {
		bytes, chunk int           // in the file, and read each second
		took         time.Duration // at most
		whole        bool
	}{
		"fast":          {long, long, time.Second, true},
		"slow":          {long, 4000, 152 * time.Second, true},
		"not read":      {long, 0, mostStill, false},
		"takes forever": {endless, 1000, mostFlow, false},
	} {
		for _, path := range []string{historyPath, runsPath + "/r1/" + saved.FactsFile} {
			t.Run(name+path, func(t *testing.T) {
				dir := t.TempDir()
				text := bytes.Repeat([]byte("x"), test.bytes)
				if err := errors.Join(os.Mkdir(filepath.Join(dir, "r1"), 0o755), os.WriteFile(filepath.Join(dir, saved.HistoryFile), text, 0o600),
					os.WriteFile(filepath.Join(dir, "r1", saved.FactsFile), text, 0o600)); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					g := &guard{Config: Config{Out: dir}, store: &store.Store{}}
					ln := make(pipes, 1)
					var cut time.Time
					ended := make(chan struct{})
					server := &http.Server{WriteTimeout: gate.MostWait + 10*time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						g.private().ServeHTTP(w, r)
						cut = time.Now()
						close(ended)
					})}
					go server.Serve(ln)
					defer close(ln)
					us, them := net.Pipe()
					ln <- them
					defer us.Close()
					began := time.Now()
					fmt.Fprintf(us, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path)
					read, err := 0, error(nil)
					for buf := make([]byte, max(test.chunk, 1)); err == nil && test.chunk > 0; time.Sleep(time.Second) { // of virtual time
						var n int
						n, err = io.ReadFull(us, buf)
						read += n
					}
					<-ended
					if took := cut.Sub(began); took > test.took || read > test.bytes != test.whole {
						t.Errorf("after %v %d bytes of %d were read", took, read, test.bytes)
					}
				})
			})
		}
	}
}

// Nothing but a run's own files is fetched, and none is left half written.
func TestOnlyTheFilesOfRunsAreFetched(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("r1/timeline.json", "{}")
	write("r1/facts.lapse", "facts")
	write("r1/lock", "no run's")
	write("r2/facts.lapse", "it goes on")
	write("r3/timeline.json", "{}") // there was no place for its recording
	write("secret", "no run")
	g := &guard{Config: Config{Out: dir}, store: &store.Store{}}
	server := httptest.NewServer(g.private())
	defer server.Close()
	for _, path := range []string{"/r1/lock", "/../secret", "/r1/..%2f..%2fsecret", "/r4/facts.lapse"} {
		reply, err := http.Get(server.URL + runsPath + path)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %s", path, reply.Status)
		}
	}
	to := t.TempDir()
	var fetched []string
	if err := Fetch(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"), to, func(run string) {
		fetched = append(fetched, run)
	}); err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, run := range []string{"r1", "r2", "r3"} {
		entries, _ := os.ReadDir(filepath.Join(to, run))
		for _, e := range entries {
			there = append(there, run+"/"+e.Name())
		}
	}
	if got := strings.Join(there, " "); got != "r1/facts.lapse r1/timeline.json r3/timeline.json" || strings.Join(fetched, " ") != "r1 r3" {
		t.Errorf("there are %s, and it says %q", got, fetched)
	}
}

// A run that the guard lets go of while others are fetched keeps none of them from it.
func TestARunThatIsGoneMeanwhileIsLeftOut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == runsPath:
			fmt.Fprint(w, `["gone","r1"]`)
		case strings.HasPrefix(r.URL.Path, runsPath+"/r1/"):
			fmt.Fprint(w, "{}")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	to := t.TempDir()
	var fetched []string
	if err := Fetch(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"), to, func(run string) { fetched = append(fetched, run) }); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != 1 || strings.Join(fetched, " ") != "r1" {
		t.Errorf("there are %v (%v), and it says %q", entries, err, fetched)
	}
}

// A guard that names a run so that it would be written elsewhere is none.
func TestAGuardDoesNotChooseWhereItsRunsGo(t *testing.T) {
	for _, name := range []string{"../r1", "..", ".", "/", ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "[%q]", name) }))
		defer server.Close()
		err := Fetch(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"), t.TempDir(), func(string) {})
		if err == nil || !strings.Contains(err.Error(), "is no guard") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Lines that this Lapse cannot read, as those of a newer guard, are told. The others are kept.
func TestLinesThatCannotBeFetchedAreTold(t *testing.T) {
	var file strings.Builder
	line := history.Line{History: history.Version, Run: "gone", T0: time.Unix(1, 0), Service: "shop/web", Verdict: model.Inconclusive}
	if err := history.Write(&file, line); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == runsPath {
			fmt.Fprint(w, "[]")
			return
		}
		fmt.Fprint(w, file.String()+`{"history":2}`+"\n")
	}))
	defer server.Close()
	dir := t.TempDir()
	err := Fetch(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"), dir, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "line 2: format 2 was written by a newer Lapse") {
		t.Errorf("%v", err)
	}
	if h, err := saved.ReadHistory(dir); err != nil || len(h.Lines) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// The history of a guard also has runs that are not kept any more. Before its first run there is none.
func TestTheHistoryOfAGuardIsAsked(t *testing.T) {
	dir := t.TempDir()
	g := &guard{Config: Config{Out: dir}}
	server := httptest.NewServer(g.private())
	defer server.Close()
	ask := func() saved.History {
		t.Helper()
		h, err := History(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := ask(); len(h.Lines)+len(h.Unread)+len(h.CutOff) != 0 {
		t.Errorf("before the first run: %+v", h)
	}
	var file strings.Builder
	line := history.Line{History: history.Version, Run: "gone", T0: time.Unix(1, 0), Service: "shop/web", Verdict: model.Inconclusive}
	if err := history.Write(&file, line); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, saved.HistoryFile), []byte(file.String()+"{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := ask(); len(h.Lines) != 1 || h.Lines[0].Run != "gone" || len(h.Unread) != 1 || !strings.HasPrefix(h.Unread[0].Error(), "the guard's history: line 2: ") {
		t.Errorf("%+v", h)
	}
}
