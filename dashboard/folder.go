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
	Runs []Listed

	// Compared are the names of two runs that GET / shows one below the other, instead of the list.
	Compared []string

	// Open returns what a run's page shows. It is called once for each run that somebody opens, from any goroutine.
	Open func(name string) (*Store, Options, error)
}

// A Listed is a run in a list.
type Listed struct {
	Name     string // which no other run of the list has
	Began    time.Time
	Word     string // the verdict in a word
	Result   string // the verdict as a style: pass, fail, inconclusive, ungated
	Headline string // what was found
	Cause    string // of the most harmful incident; "" if there is none
	Failed   int
	Sent     int
}

// ServeFolder shows a list of runs on ln until ctx ends, as [Serve] shows one.
func ServeFolder(ctx context.Context, ln net.Listener, folder Folder, opts Options) error {
	f := &folderServer{Folder: folder, opts: knowing(ln, opts), pages: map[string]*opened{}}
	root := newServer(NewStore(), f.opts) // its headers, and its check of names
	root.mux = http.NewServeMux()
	root.mux.HandleFunc("GET /", serveFiles)
	root.mux.HandleFunc("GET /{$}", f.serveList)
	root.mux.HandleFunc("GET /run/{name}/", f.serveRun)
	return serveHandler(ctx, ln, root, f.opts, f.awaitViewers)
}

// A folderServer is a folder with the pages that were opened.
type folderServer struct {
	Folder
	opts Options

	mu    sync.Mutex
	pages map[string]*opened // by the run's name
}

// An opened run has a handler, or an error that says why not, once it has been opened.
type opened struct {
	once    sync.Once
	handler *server
	err     error
}

func (f *folderServer) serveRun(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(f.Runs, func(l Listed) bool { return l.Name == name }) {
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
		f.pages[name] = &opened{}
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
	if len(f.Compared) > 0 {
		f.serveCompared(w, r)
		return
	}
	runs := slices.SortedStableFunc(slices.Values(f.Runs), func(a, b Listed) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Name, b.Name))
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(listPage(runs))) // an error means that the client went away
}

// serveCompared serves the page, which reads from its address what it is to compare.
func (f *folderServer) serveCompared(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("compare") {
		query := url.Values{"compare": {strings.Join(f.Compared, ",")}}
		http.Redirect(w, r, "/?"+query.Encode(), http.StatusFound)
		return
	}
	serveFiles(w, r)
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

// listHTML is the page, with places for the number of runs, the chart, the rows of the table and the chart's caption.
//
//go:embed runs.html
var listHTML string

const (
	barHTML = `<rect class="%s" x="%s" y="%s" width="9" height="%s"><title>%s</title></rect>` + "\n"
	rowHTML = `<tr data-testid="run">
<th scope="row"><a href="run/%s/">%s</a></th>
<td class="%s">%s</td>
<td class="num">%s</td>
<td>%s</td>
<td>%s</td>
<td>%s</td>
</tr>
`
)

// listPage returns the list as HTML. It is no template: html/template calls methods by name, so the linker would keep
// every method of every type, a fifth of the program.
func listPage(newestFirst []Listed) string {
	var chart, rows strings.Builder
	for _, b := range bars(newestFirst) {
		chart.WriteString(markup(barHTML, b.Class, b.X, b.Y, b.Height, b.Title))
	}
	for _, l := range newestFirst {
		rows.WriteString(markup(rowHTML, url.PathEscape(l.Name), l.Name, l.Result, l.Word, l.failed(), l.Cause,
			l.began(), l.Headline))
	}
	count := quantity.Count(len(newestFirst), "run")
	return fmt.Sprintf(listHTML, count, chart.String(), rows.String(), html.EscapeString(caption(newestFirst)))
}

// failed and began return what the list says of a run, "" where that is not known.
func (l Listed) failed() string {
	if l.Sent == 0 {
		return ""
	}
	return fmt.Sprintf("%d / %d", l.Failed, l.Sent)
}

func (l Listed) began() string {
	if l.Began.IsZero() {
		return ""
	}
	return l.Began.UTC().Format(time.DateTime)
}

// markup formats values, of which HTML means nothing: format's verbs are %s, in text or in quoted attributes.
func markup(format string, values ...any) string {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(fmt.Sprint(v))
	}
	return fmt.Sprintf(format, escaped...)
}
