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
func listing(runs ...Listed) func() []Listed { return func() []Listed { return runs } }

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

// A folder lists its runs, the newest first; each has a page of its own, which is opened once, when somebody asks for it.
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
	_, list := fetch(t, url+"/", "")
	for _, want := range []string{`href="run/before/"`, "174 / 10453", "route-outlives-pod", "no failure &lt;seen&gt;",
		`<rect class="unmeasured" x="0"`, `<rect class="failed" x="12"`, `<rect class="none" x="24"`} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in the list", want)
		}
	}
	for _, want := range []string{"in 3 runs, the newest at the right; the tallest bar is 1.7", `<td class="fail">FAIL</td>`} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in the list", want)
		}
	}
	for _, not := range []string{"0001-01-01", "0 / 0"} {
		if strings.Contains(list, not) {
			t.Errorf("of a run of which nothing is known the list says %s", not)
		}
	}
	if strings.Index(list, "run/after/") > strings.Index(list, "run/before/") {
		t.Error("the newest run is not the first")
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
	for _, path := range []string{"/", "/run/before/"} {
		if status, _ := fetch(t, url+path, "evil.example"); status != http.StatusForbidden {
			t.Errorf("%s under a foreign name is %d", path, status)
		}
	}
}

// A guard's page has what it measures above its runs, and each run is compared with the one before of its Service.
func TestAGuardsPageHasItsServicesAboveItsRuns(t *testing.T) {
	runs := []Listed{{Name: "r1", Service: "shop/web", Began: time.Unix(1000, 0)}, {Name: "r2", Service: "shop/api", Began: time.Unix(2000, 0)}}
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "all is well") })
	server := httptest.NewServer(FolderHandler(Folder{
		Runs: func() []Listed { return runs },
		Watched: func() []Watched {
			return []Watched{{Name: "shop/web", State: "idle", Since: time.Unix(500, 0), About: "3 of <900> failed"}}
		},
	}, v1, Options{}))
	defer server.Close()
	_, list := fetch(t, server.URL+"/", "")
	for _, want := range []string{"Guarded Services", "<td>idle</td>", "1970-01-01 00:08:20", "3 of &lt;900&gt; failed"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if strings.Contains(list, "?compare") {
		t.Error("the first run of a Service is compared")
	}
	runs = append(runs, Listed{Name: "r3", Service: "shop/web", SetOff: "drain of node1", Began: time.Unix(3000, 0)})
	_, list = fetch(t, server.URL+"/", "")
	for _, want := range []string{`<a href="?compare=r1%2Cr3">`, "<td>drain of node1</td>"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in the list, once there is such a run", want)
		}
	}
	if status, text := fetch(t, server.URL+"/v1/status", ""); status != http.StatusOK || text != "all is well" {
		t.Errorf("the status is %d %s", status, text)
	}
	if status, _ := fetch(t, server.URL+"/v1/status", "evil.example"); status != http.StatusForbidden {
		t.Errorf("the status under a foreign name is %d", status)
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
