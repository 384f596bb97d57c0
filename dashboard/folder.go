package dashboard

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/correlate/quantity"
)

// A Folder is a list of runs, each with a page of its own: GET / is the list, GET /run/NAME/ the page of one.
type Folder struct {
	// Runs returns what is listed. It is called at each look, from any goroutine.
	Runs func() []Listed

	// Watched returns what stands above the list: what a guard measures. nil: there is no guard.
	Watched func() []Watched

	// Compared are the names of two runs that GET / shows one below the other, instead of the list.
	Compared []string

	// Open returns what a run's page shows. It is called once for each run that somebody opens, from any goroutine.
	Open func(name string) (*Store, Options, error)
}

// A Watched is a Service that a guard measures.
type Watched struct {
	Name  string // NAMESPACE/NAME
	State string
	Since time.Time
	About string // why it stands so, or what its last run showed
}

// A Listed is a run in a list.
type Listed struct {
	Name     string // which no other run of the list has
	Service  string // "" if it is not one
	SetOff   string // what ended Pods, as in "drain of node1"; "" if nothing did
	Began    time.Time
	Word     string // the verdict in a word
	Result   string // the verdict as a style: pass, fail, inconclusive, ungated
	Headline string // what was found
	Down     string // for how long requests failed; "" if none did
	Cause    string // of the most harmful incident; "" if there is none
	Failed   int
	Sent     int
}

// ServeFolder shows a list of runs on ln until ctx ends, as [Serve] shows one.
func ServeFolder(ctx context.Context, ln net.Listener, folder Folder, opts Options) error {
	f := &folderServer{Folder: folder, opts: knowing(ln, opts), pages: map[string]*opened{}}
	return serveHandler(ctx, ln, named(f.handler(), f.opts), f.opts, f.awaitViewers)
}

// FolderHandler returns the pages of a folder, and below /v1/ what else is served.
func FolderHandler(folder Folder, v1 http.Handler, opts Options) http.Handler {
	f := &folderServer{Folder: folder, opts: opts, pages: map[string]*opened{}}
	mux := f.handler()
	mux.Handle("GET /v1/", v1)
	return named(mux, opts)
}

func (f *folderServer) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", serveFiles)
	mux.HandleFunc("GET /{$}", f.serveList)
	mux.HandleFunc("GET /run/{name}/", f.serveRun)
	return mux
}

// A folderServer is a folder with the pages that were opened.
type folderServer struct {
	Folder
	opts Options

	mu    sync.Mutex
	pages map[string]*opened // by the run's name
	order []string           // of pages: the one that was opened longest ago first
}

// mostOpened is how many runs are kept in memory.
const mostOpened = 16

// An opened run has a handler, or an error that says why not, once it has been opened.
type opened struct {
	once    sync.Once
	handler *server
	err     error
}

func (f *folderServer) serveRun(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(f.Runs(), func(l Listed) bool { return l.Name == name }) {
		http.NotFound(w, r)
		return
	}
	page := f.page(name)
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

func (f *folderServer) page(name string) *opened {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages[name] == nil {
		if len(f.order) == mostOpened {
			delete(f.pages, f.order[0])
			f.order = f.order[1:]
		}
		f.pages[name], f.order = &opened{}, append(f.order, name)
	}
	return f.pages[name]
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
	query := r.URL.Query()
	switch {
	case query.Has("compare"): // the page reads from its address what it is to compare
		serveFiles(w, r)
		return
	case len(f.Compared) > 0:
		query = url.Values{"compare": {strings.Join(f.Compared, ",")}}
		http.Redirect(w, r, "/?"+query.Encode(), http.StatusFound)
		return
	}
	runs := slices.SortedStableFunc(slices.Values(f.Runs()), func(a, b Listed) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Name, b.Name))
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(f.listPage(runs))) // an error means that the client went away
}

// A bar of the list's chart is the share of a run's requests that failed.
type bar struct {
	X, Y, Height float64
	Title        string
	Class        string // "failed", "none" if no request did, "unmeasured" if none was sent
}

// mostBars is how many of the newest runs the chart has.
const mostBars = 20

// charted returns the runs that the chart has, and the largest share of requests that failed in one of them.
func charted(newestFirst []Listed) (shown []Listed, most float64) {
	shown = newestFirst[:min(len(newestFirst), mostBars)]
	for _, l := range shown {
		most = max(most, l.share())
	}
	return shown, most
}

// caption says what the chart shows, and how much the tallest bar is.
func caption(newestFirst []Listed) string {
	shown, most := charted(newestFirst)
	text := fmt.Sprintf("The share of requests that failed in %s, the newest at the right",
		quantity.Count(len(shown), "run"))
	if most == 0 {
		return text + ": none failed."
	}
	return text + "; the tallest bar is " + quantity.Percent(most) + "."
}

// bars returns the chart, the newest run at the right. Runs without a failure have a flat bar, lower than any other.
func bars(newestFirst []Listed) []bar {
	shown, most := charted(newestFirst)
	all := make([]bar, 0, len(shown))
	for i, l := range slices.Backward(shown) {
		height, class := 1.0, "none"
		switch {
		case l.Sent == 0:
			class = "unmeasured"
		case l.Failed > 0:
			height, class = max(4, 40*l.share()/most), "failed"
		}
		all = append(all, bar{
			X: float64(12 * (len(shown) - 1 - i)), Y: 40 - height, Height: height, Class: class,
			Title: strings.TrimSuffix(l.Name+": "+l.Headline, ": "),
		})
	}
	return all
}

func (l Listed) share() float64 { return float64(l.Failed) / float64(max(l.Sent, 1)) }

// listHTML is the page, with places for the number of runs, the chart, the rows of the table, the chart's caption and
// what a guard measures.
//
//go:embed runs.html
var listHTML string

const (
	barHTML = `<rect class="%s" x="%s" y="%s" width="9" height="%s"><title>%s</title></rect>` + "\n"
	rowHTML = `<tr data-testid="run">
<td class="%s">%s</td>
<th scope="row"><a href="run/%s/" title="%s">%s</a></th>
<td>%s</td>
<td>%s</td>
<td>%s</td>
<td class="num">%s</td>
<td>%s</td>
<td>%s</td>
<td>`
	compareHTML = `<a href="?%s">with the one before</a>`
	rowEndHTML  = "</td>\n</tr>\n"
	watchedHTML = `<tr data-testid="watched">
<th scope="row">%s</th>
<td>%s</td>
<td>%s</td>
<td>%s</td>
</tr>
`
)

//go:embed watched.html
var guardHTML string

// listPage returns the list as HTML. It is no template: html/template calls methods by name, so the linker would keep
// every method of every type, a fifth of the program.
func (f *folderServer) listPage(newestFirst []Listed) string {
	var chart, rows strings.Builder
	for _, b := range bars(newestFirst) {
		chart.WriteString(markup(barHTML, b.Class, b.X, b.Y, b.Height, b.Title))
	}
	for i, l := range newestFirst {
		rows.WriteString(markup(rowHTML, l.Result, l.Word, url.PathEscape(l.Name), l.Headline, l.Name,
			instant(l.Began), l.Service, l.SetOff, l.failed(), l.Down, l.Cause))
		rows.WriteString(compareWith(l, newestFirst[i+1:]) + rowEndHTML)
	}
	count := quantity.Count(len(newestFirst), "run")
	return fmt.Sprintf(listHTML, count, chart.String(), rows.String(), html.EscapeString(caption(newestFirst)),
		f.guardPanel())
}

// compareWith returns a link to the comparison with the newest earlier run of the same Service, "" if there is none.
func compareWith(l Listed, earlier []Listed) string {
	i := slices.IndexFunc(earlier, func(e Listed) bool { return e.Service == l.Service })
	if i < 0 || l.Service == "" || strings.Contains(l.Name+earlier[i].Name, ",") {
		return ""
	}
	return markup(compareHTML, url.Values{"compare": {earlier[i].Name + "," + l.Name}}.Encode())
}

// guardPanel returns what a guard measures as HTML, "" if there is none.
func (f *folderServer) guardPanel() string {
	if f.Watched == nil {
		return ""
	}
	var rows strings.Builder
	for _, w := range f.Watched() {
		rows.WriteString(markup(watchedHTML, w.Name, w.State, instant(w.Since), w.About))
	}
	return fmt.Sprintf(guardHTML, rows.String())
}

// failed returns what the list says of a run's failures, "" if nothing was sent.
func (l Listed) failed() string {
	if l.Sent == 0 {
		return ""
	}
	return fmt.Sprintf("%d / %d", l.Failed, l.Sent)
}

// instant returns a time as the list says it, "" if it is not known.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime)
}

// markup formats values, of which HTML means nothing: format's verbs are %s, in text or in quoted attributes.
func markup(format string, values ...any) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(fmt.Sprint(v))
	}
	return fmt.Sprintf(format, escaped...)
}
