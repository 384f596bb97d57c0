package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Folder is a list of runs, each with a page of its own: GET / is the list, GET /run/NAME/ the page of one.
type Folder struct {
	// Runs returns what is listed. It is called every few seconds, from any goroutine.
	Runs func() Runs

	// Now returns how a guard stands, whose runs these are. nil: there is none.
	Now func() Now

	// Compared are the names of two runs that GET / shows one below the other, instead of the list.
	Compared []string

	// Open returns what a run's page shows. It is called once for each run that somebody opens, from any goroutine.
	Open func(name string) (*Store, Options, error)
}

// Runs are many runs, and what they show together.
type Runs struct {
	Version string   `json:"version"`        // another one: the rest may have changed
	Listed  []Listed `json:"runs"`           // in any order
	Older   int      `json:"older,omitzero"` // runs of which only their lines are left, and which are not listed
	// each is whatever encodes to what ui/src/runs.ts reads
	Days  any `json:"days"`  // what the last days showed of each Service
	Trend any `json:"trend"` // by Service and release
}

// A Listed is a run in a list.
type Listed struct {
	Name     string    `json:"name"` // which no other run of the list has
	Services []string  `json:"services,omitzero"`
	SetOff   string    `json:"setOff,omitzero"`  // what ended Pods, as in "drain of node1"
	Release  []string  `json:"release,omitzero"` // the templates that served, the oldest first
	Began    time.Time `json:"began,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Word     string    `json:"word"`              // the verdict in a word
	Result   string    `json:"result,omitzero"`   // the verdict as a style: pass, fail, inconclusive, ungated
	Outcome  string    `json:"outcome,omitzero"`  // as a day has it; absent: it is not judged
	Headline string    `json:"headline,omitzero"` // what was found
	Down     string    `json:"down,omitzero"`     // for how long requests failed
	Cause    string    `json:"cause,omitzero"`    // of the most harmful incident
	Fix      string    `json:"fix,omitzero"`      // what to do against it
	Failed   int       `json:"failed"`
	Sent     int       `json:"sent"`
	Gone     bool      `json:"gone,omitzero"` // only its line of history is left: it has no page
	// the run that counts instead: two guards measured one disruption, and this run says no worse
	Again string `json:"again,omitzero"`
}

// NotJudged is the word of a run that has no verdict yet, or none that can be read.
const NotJudged = "not judged"

// Now is how a guard stands.
type Now struct {
	At       time.Time `json:"at"`
	Speaks   Speaker   `json:"speaks"`
	Problems []string  `json:"problems,omitzero"` // what is wrong with the guard itself
	Services []Watched `json:"services"`          // by their names
}

// A Speaker is who tells of several guards, all of which measure.
type Speaker string

// Speakers.
const (
	ThisGuard  Speaker = "this"
	OtherGuard Speaker = "other"
	NoGuard    Speaker = "nobody"
)

// A Watched is a Service that a guard measures.
type Watched struct {
	Name  string    `json:"name"` // NAMESPACE/NAME
	State string    `json:"state"`
	Since time.Time `json:"since"`
	About string    `json:"about,omitzero"` // why it stands so, or what its last run showed
	Run   string    `json:"run,omitzero"`   // that goes on, in which so many of the requests so far failed
	Sent  int       `json:"sent,omitzero"`
	Fails int       `json:"failed,omitzero"`
}

// ServeFolder shows a list of runs on ln until ctx ends, as [Serve] shows one.
func ServeFolder(ctx context.Context, ln net.Listener, folder Folder, opts Options) error {
	f := newFolderServer(folder, knowing(ln, opts))
	return serveHandler(ctx, ln, named(f.handler(), f.opts), f.opts, f.awaitViewers)
}

// FolderHandler returns the pages of a folder, and below /v1/ what else is served.
func FolderHandler(folder Folder, v1 http.Handler, opts Options) http.Handler {
	f := newFolderServer(folder, opts)
	mux := f.handler()
	mux.Handle("GET /v1/", v1)
	return named(mux, opts)
}

func newFolderServer(folder Folder, opts Options) *folderServer {
	return &folderServer{
		Folder: folder, opts: opts, api: newServer(NewStore(), opts), pages: map[string]*opened{},
	}
}

func (f *folderServer) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", serveFiles)
	mux.HandleFunc("GET /{$}", f.serveList)
	mux.HandleFunc("GET /api/v1/runs", f.serveRuns)
	mux.HandleFunc("GET /api/v1/now", f.serveNow)
	mux.HandleFunc("GET /run/{name}/", f.serveRun)
	return mux
}

// A folderServer is a folder with the pages that were opened.
type folderServer struct {
	Folder
	opts Options
	api  *server // for its limits

	mu    sync.Mutex
	pages map[string]*opened // by the run's name
	order []string           // of pages: the one that was opened longest ago first
}

// mostOpened is how many runs are kept in memory, and keptUnused how long one is that nobody asks for.
const (
	mostOpened = 16
	keptUnused = 10 * time.Minute
)

// An opened run has a handler, or an error that says why not, once it has been opened.
type opened struct {
	word    string // the verdict, or that there was none
	once    sync.Once
	handler *server
	err     error

	using int         // requests in progress
	idle  *time.Timer // lets it go, while there are none
}

func (f *folderServer) serveRun(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	listed := f.Runs().Listed
	i := slices.IndexFunc(listed, func(l Listed) bool { return l.Name == name && !l.Gone })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	page := f.page(name, listed[i].Word, r.URL.Path == "/run/"+name+"/")
	defer f.release(name, page)
	page.once.Do(func() {
		store, opts, err := f.Open(name)
		if page.err = err; err == nil {
			opts.Hosts = f.opts.Hosts
			page.handler = newServer(store, opts)
		}
	})
	if page.err != nil {
		http.Error(w, page.err.Error(), http.StatusInternalServerError)
		return
	}
	http.StripPrefix("/run/"+name, page.handler).ServeHTTP(w, r)
}

// page returns what was opened of a run, until release. A run that was not judged then is opened again with its
// document: it may have gone on.
func (f *folderServer) page(name, word string, document bool) *opened {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.pages[name]
	if page == nil || document && (page.word != word || word == NotJudged) {
		f.remove(name)
		if len(f.order) == mostOpened {
			f.remove(f.order[0])
		}
		page = &opened{word: word}
		page.idle = time.AfterFunc(keptUnused, func() { f.letGo(name, page) })
		f.pages[name], f.order = page, append(f.order, name)
	}
	page.idle.Stop()
	page.using++
	return page
}

// release tells that a request for a page is done. A run that could not be opened is opened again at the next one.
func (f *folderServer) release(name string, page *opened) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page.using--
	switch {
	case f.pages[name] != page: // it was removed
	case page.err != nil:
		f.remove(name)
	case page.using == 0:
		page.idle.Reset(keptUnused)
	}
}

// letGo removes a page if nobody uses it.
func (f *folderServer) letGo(name string, page *opened) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if page.using == 0 && f.pages[name] == page {
		f.remove(name)
	}
}

// remove removes a page. The caller holds the mutex.
func (f *folderServer) remove(name string) {
	delete(f.pages, name)
	f.order = slices.DeleteFunc(f.order, func(n string) bool { return n == name })
}

func (f *folderServer) awaitViewers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pages {
		if p.handler != nil {
			p.handler.awaitViewers()
		}
	}
}

func (f *folderServer) serveList(w http.ResponseWriter, r *http.Request) {
	if len(f.Compared) > 0 && !r.URL.Query().Has("compare") { // the page reads from its address what it is to compare
		query := url.Values{"compare": {strings.Join(f.Compared, ",")}}
		http.Redirect(w, r, "/?"+query.Encode(), http.StatusFound)
		return
	}
	serveListPage(w, r)
}

func (f *folderServer) serveRuns(w http.ResponseWriter, r *http.Request) {
	f.api.download(w, r, func(body io.Writer) error { return json.NewEncoder(body).Encode(f.Runs()) })
}

// serveNow serves what a list asks for all the time.
func (f *folderServer) serveNow(w http.ResponseWriter, r *http.Request) {
	now := struct {
		Version string `json:"version"` // of the runs
		Guard   *Now   `json:"guard,omitzero"`
	}{Version: f.Runs().Version}
	if f.Now != nil {
		now.Guard = new(f.Now())
	}
	f.api.download(w, r, func(body io.Writer) error { return json.NewEncoder(body).Encode(now) })
}
