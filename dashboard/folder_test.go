package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// serveFolder serves a folder until the test ends, and returns its address.
func serveFolder(t *testing.T, folder Folder) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- ServeFolder(ctx, ln, folder, Options{}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// listing returns a list that does not change.
func listing(runs ...Listed) func() Runs {
	return func() Runs { return Runs{Version: "1", Listed: runs} }
}

// fetch returns a document and its status.
func fetch(t *testing.T, url, host string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A folder lists its runs; each has a page of its own, which is opened once, when somebody asks for it.
func TestAFolderListsItsRuns(t *testing.T) {
	var opened atomic.Int32
	url := serveFolder(t, Folder{
		Runs: listing(
			Listed{Name: "before", Began: time.Unix(1000, 0), Word: "FAIL", Result: "fail", Failed: 174, Sent: 10453, Cause: "route-outlives-pod"},
			Listed{Name: "after", Began: time.Unix(2000, 0), Word: "PASS", Result: "pass", Sent: 12865, Headline: "no failure <seen>"},
			Listed{Name: "broken", Word: "not judged"},
		),
		Open: func(name string) (*Store, Options, error) {
			if name == "broken" {
				return nil, Options{}, errors.New("it holds no facts")
			}
			opened.Add(1)
			store := NewStore()
			return store, Options{}, store.Put("run", map[string]string{"id": name})
		},
	})
	if status, text := fetch(t, url+"/", ""); status != http.StatusOK || !strings.Contains(text, `<div id="page" data-runs>`) {
		t.Errorf("the list's page is %d %s", status, text)
	}
	_, list := fetch(t, url+"/api/v1/runs", "")
	for _, want := range []string{`"version":"1"`, `"name":"before"`, `"failed":174,"sent":10453`, `"cause":"route-outlives-pod"`, `{"name":"broken","word":"not judged","failed":0,"sent":0}`} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in %s", want, list)
		}
	}
	if status, text := fetch(t, url+"/api/v1/now", ""); status != http.StatusOK || strings.TrimSpace(text) != `{"version":"1"}` {
		t.Errorf("now is %d %s", status, text)
	}
	for range 2 {
		if status, text := fetch(t, url+"/run/before/api/v1/snapshot", ""); status != http.StatusOK || !strings.Contains(text, `"id":"before"`) {
			t.Errorf("the run's snapshot is %d %s", status, text)
		}
	}
	if status, text := fetch(t, url+"/run/before/", ""); status != http.StatusOK || !strings.Contains(text, `id="page"`) {
		t.Errorf("the run's page is %d %s", status, text)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("one run was opened %d times", n)
	}
	if status, text := fetch(t, url+"/run/broken/", ""); status != http.StatusInternalServerError || !strings.Contains(text, "no facts") {
		t.Errorf("a run that cannot be read is %d %s", status, text)
	}
	if status, _ := fetch(t, url+"/run/..%2f..%2fetc/", ""); status != http.StatusNotFound {
		t.Errorf("what is no run of the folder is %d", status)
	}
	for _, path := range []string{"/", "/api/v1/runs", "/api/v1/now", "/run/before/"} {
		if status, _ := fetch(t, url+path, "evil.example"); status != http.StatusForbidden {
			t.Errorf("%s under a foreign name is %d", path, status)
		}
	}
}

// A guard's page is told how the guard stands, at each look, and has what else is served below /v1/.
func TestAGuardsPageIsToldHowItStands(t *testing.T) {
	state := "idle"
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "all is well") })
	server := httptest.NewServer(FolderHandler(Folder{
		Runs: listing(),
		Now: func() Now {
			return Now{Speaks: NoGuard, Services: []Watched{{Name: "shop/web", State: state, Since: time.Unix(500, 0).UTC(), About: "3 of <900> failed"}}}
		},
	}, v1, Options{}))
	defer server.Close()
	for _, state = range []string{"idle", "recording"} {
		_, now := fetch(t, server.URL+"/api/v1/now", "")
		for _, want := range []string{`"speaks":"nobody"`, `"state":"` + state + `"`, `"since":"1970-01-01T00:08:20Z"`, `3 of \u003c900\u003e failed`} {
			if !strings.Contains(now, want) {
				t.Errorf("no %s in %s", want, now)
			}
		}
	}
	if status, text := fetch(t, server.URL+"/v1/status", ""); status != http.StatusOK || text != "all is well" {
		t.Errorf("the status is %d %s", status, text)
	}
	if status, _ := fetch(t, server.URL+"/v1/status", "evil.example"); status != http.StatusForbidden {
		t.Errorf("the status under a foreign name is %d", status)
	}
}

// A run that goes on is opened as it is by now, each time its document is loaded, and once more when it is judged.
func TestARunThatGoesOnIsOpenedAgain(t *testing.T) {
	listed, opened := Listed{Name: "a", Word: NotJudged}, 0
	url := serveFolder(t, Folder{
		Runs: func() Runs { return Runs{Listed: []Listed{listed}} },
		Open: func(string) (*Store, Options, error) { opened++; return NewStore(), Options{}, nil },
	})
	for i, step := range []struct {
		path, word string
		want       int
	}{{"", NotJudged, 1}, {"api/v1/snapshot", NotJudged, 1}, {"", NotJudged, 2}, {"", "PASS", 3}, {"", "PASS", 3}} {
		listed.Word = step.word
		if fetch(t, url+"/run/a/"+step.path, ""); opened != step.want {
			t.Errorf("after %d steps it was opened %d times, want %d", i+1, opened, step.want)
		}
	}
}

// A run that could not be opened, as with too many open files, is opened at the next look.
func TestARunThatCouldNotBeOpenedIsTriedAgain(t *testing.T) {
	failures := 1
	url := serveFolder(t, Folder{Runs: listing(Listed{Name: "a", Word: "PASS"}), Open: func(string) (*Store, Options, error) {
		if failures > 0 {
			failures--
			return nil, Options{}, errors.New("too many open files")
		}
		return NewStore(), Options{}, nil
	}})
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		if status, text := fetch(t, url+"/run/a/", ""); status != want {
			t.Errorf("the run's page is %d %s", status, text)
		}
	}
}

// Only so many runs stay in memory.
func TestTheRunThatWasOpenedFirstIsLetGo(t *testing.T) {
	opened := map[string]int{}
	var runs []Listed
	for i := range mostOpened + 1 {
		runs = append(runs, Listed{Name: fmt.Sprint(i)})
	}
	url := serveFolder(t, Folder{Runs: listing(runs...), Open: func(name string) (*Store, Options, error) {
		opened[name]++
		return NewStore(), Options{}, nil
	}})
	for _, l := range append(runs, runs[0], runs[2]) {
		fetch(t, url+"/run/"+l.Name+"/", "")
	}
	if opened["0"] != 2 || opened["2"] != 1 {
		t.Errorf("opened %v", opened)
	}
}

// A run that nobody looks at any more leaves memory, also if nothing else is asked for. It is opened again when needed.
func TestAnUnusedRunIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		looking := make(chan struct{})
		options := Options{Looked: func(context.Context) func() { <-looking; return func() {} }}
		f := newFolderServer(Folder{
			Runs: listing(Listed{Name: "a", Word: "PASS"}),
			Open: func(string) (*Store, Options, error) { opened++; return NewStore(), options, nil },
		}, Options{})
		ask := func(path string) {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/run/a/"+path, nil)
			f.handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		kept := func(want int) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.pages) != want || len(f.order) != want {
				t.Errorf("%d pages in memory, want %d", len(f.pages), want)
			}
		}
		for range 3 {
			ask("")
			time.Sleep(keptUnused - time.Second)
			kept(1)
		}
		go ask("api/v1/snapshot")
		time.Sleep(3 * keptUnused)
		kept(1) // somebody looks at it
		close(looking)
		time.Sleep(keptUnused - time.Second)
		kept(1)
		time.Sleep(2 * time.Second)
		kept(0)
		ask("")
		if kept(1); opened != 2 {
			t.Errorf("opened %d times, want 2", opened)
		}
	})
}

// Two runs that are compared have one address, which says which they are.
func TestTwoRunsAreCompared(t *testing.T) {
	url := serveFolder(t, Folder{
		Runs: listing(Listed{Name: "a"}, Listed{Name: "b"}), Compared: []string{"a", "b"},
		Open: func(string) (*Store, Options, error) { return NewStore(), Options{}, nil },
	})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if to := response.Header.Get("Location"); to != "/?compare=a%2Cb" {
		t.Errorf("the page is at %q", to)
	}
	if status, text := fetch(t, url+"/?compare=a%2Cb", ""); status != http.StatusOK || !strings.Contains(text, `id="page"`) {
		t.Errorf("the page is %d %s", status, text)
	}
}
