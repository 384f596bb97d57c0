package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say how the page is served. The zero value works.
type Options struct {
	// Timeline writes timeline.json. It is called from any goroutine, into memory: it need not fear
	// a slow reader. Without it there is no download.
	Timeline func(io.Writer) error

	// Looked is called when somebody begins to look at the store or the timeline, before these are read, and what it
	// returns when they have stopped: so that the store needs to be kept up to date only meanwhile. It may wait a
	// little until it is.
	Looked func(context.Context) (stopped func())

	// Opened is called when a browser asks for the page itself, which will begin to look when it has loaded.
	Opened func()

	// names or addresses the page may be asked for by, besides localhost, 127.0.0.1 and [::1]; without port
	Hosts        []string
	MaxViewers   int           // how many may follow the stream at once; 0 is 64
	MaxConns     int           // how many connections Serve holds open; 0 is 256
	Interval     time.Duration // shortest time between two deltas to one viewer; 0 is 250 ms
	WriteTimeout time.Duration // a viewer that has not taken a message after this is let go; 0 is 10 s
}

const (
	maxDownloads = 4                // how many snapshots and timelines are under way at once
	maxParts     = 64               // that one request for details may name
	downloadTime = 60 * time.Second // how long one may take
)

// contentPolicy allows the page its own files and its own server, and nothing else: no inline
// script, no foreign host, no frame around it, and (trusted types) no markup made from strings.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler returns the page and its API over store.
func Handler(store *Store, opts Options) http.Handler { return newServer(store, opts) }

// Server returns an HTTP server for h whose limits let a slow or silent client cost only itself.
func (o Options) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      downloadTime, // a WebSocket has its own deadlines
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}

// A server is the handler with its limits.
type server struct {
	store        *Store
	timeline     func(io.Writer) error
	looked       func(context.Context) func()
	opened       func()
	hosts        []string
	mux          *http.ServeMux
	interval     time.Duration
	writeTimeout time.Duration
	downloads    chan struct{} // holds one token per download under way
	viewers      chan struct{} // holds one token per viewer

	mu       sync.Mutex
	watching map[*viewer]bool // those whose places are taken
}

func newServer(store *Store, opts Options) *server {
	s := &server{
		store:        store,
		timeline:     opts.Timeline,
		looked:       opts.Looked,
		opened:       opts.Opened,
		hosts:        append([]string{"localhost", "127.0.0.1", "::1"}, opts.Hosts...),
		mux:          http.NewServeMux(),
		interval:     cmp.Or(opts.Interval, 250*time.Millisecond),
		writeTimeout: cmp.Or(opts.WriteTimeout, 10*time.Second),
		downloads:    make(chan struct{}, maxDownloads),
		viewers:      make(chan struct{}, cmp.Or(opts.MaxViewers, 64)),
		watching:     map[*viewer]bool{},
	}
	s.mux.HandleFunc("GET /", serveFiles)
	s.mux.HandleFunc("GET /{$}", s.servePage)
	s.mux.HandleFunc("GET /api/v1/snapshot", s.whileLooked(s.serveSnapshot))
	s.mux.HandleFunc("GET /api/v1/details", s.whileLooked(s.serveDetails))
	s.mux.HandleFunc("GET /api/v1/stream", s.whileLooked(s.serveStream))
	if s.timeline != nil {
		s.mux.HandleFunc("GET /timeline.json", s.whileLooked(s.serveTimeline))
	}
	return s
}

// servePage serves the page, and tells of it.
func (s *server) servePage(w http.ResponseWriter, r *http.Request) {
	if s.opened != nil {
		s.opened()
	}
	serveFiles(w, r)
}

// whileLooked tells of who looks.
func (s *server) whileLooked(serve http.HandlerFunc) http.HandlerFunc {
	if s.looked == nil {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request) {
		defer s.looked(r.Context())()
		serve(w, r)
	}
}

// ServeHTTP refuses requests for a foreign host, and sets what protects the page in the browser.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	if !s.knowsHost(r.Host) {
		http.Error(
			w,
			"not served under this host name: open the page as http://127.0.0.1:PORT/, "+
				"through kubectl port-forward or an SSH tunnel if it is elsewhere",
			http.StatusForbidden,
		)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// knowsHost tells whether a request's Host header, with or without a port, names this server.
func (s *server) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return slices.ContainsFunc(s.hosts, func(known string) bool { return strings.EqualFold(known, host) })
}

// admit takes a place for a viewer. If there is none, it takes that of the viewer who has shown no life for longest,
// if there is one: who never answers does not lock out who would.
func (s *server) admit(ctx context.Context) bool {
	select {
	case s.viewers <- struct{}{}:
		return true
	default:
	}
	silent := s.mostSilent()
	if silent == nil {
		return false
	}
	silent.leave()
	select {
	case s.viewers <- struct{}{}:
		return true
	case <-time.After(leaveTime):
	case <-ctx.Done():
	}
	return false
}

// mostSilent returns the viewer whose ping has been unanswered for longest, or nil if all are answered, or still may
// be.
func (s *server) mostSilent() *viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var silent *viewer
	longest := silentAfter
	for v := range s.watching {
		if unanswered := v.unanswered(); unanswered > longest {
			silent, longest = v, unanswered
		}
	}
	return silent
}

// enter and gone keep the list of those who watch.
func (s *server) enter(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching[v] = true
}

func (s *server) gone(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watching, v)
}

// release gives a viewer's place back.
func (s *server) release() { <-s.viewers }

// awaitViewers takes all places, so that it returns once every viewer is gone and no other can come.
func (s *server) awaitViewers() {
	for range cap(s.viewers) {
		s.viewers <- struct{}{}
	}
}

func (s *server) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	s.download(w, r, func(body io.Writer) error { return json.NewEncoder(body).Encode(s.store.Snapshot()) })
}

// serveDetails serves the parts that are asked for.
func (s *server) serveDetails(w http.ResponseWriter, r *http.Request) {
	parts := r.URL.Query()["part"]
	if len(parts) > maxParts {
		http.Error(w, "ask for at most "+strconv.Itoa(maxParts)+" parts at once", http.StatusBadRequest)
		return
	}
	s.download(w, r, func(body io.Writer) error {
		details, err := s.store.details(parts)
		if err != nil {
			return err
		}
		return json.NewEncoder(body).Encode(details)
	})
}

func (s *server) serveTimeline(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Disposition", `attachment; filename="timeline.json"`)
	s.download(w, r, s.timeline)
}

// download writes a JSON document into memory first, so that its writer never waits for the
// network, and then sends it.
func (s *server) download(w http.ResponseWriter, r *http.Request, write func(io.Writer) error) {
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many downloads at once", http.StatusServiceUnavailable)
		return
	}
	body, encoding, err := encode(write, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	if err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, "could not write the document: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if encoding != "" {
		w.Header().Set("Content-Encoding", encoding)
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTime)) // not every ResponseWriter has one
	// an error means that the client went away
	_, _ = w.Write(body)
}

// encode collects what write writes, compressed if zip is set.
func encode(write func(io.Writer) error, zip bool) (body []byte, encoding string, err error) {
	var buf bytes.Buffer
	if !zip {
		err = write(&buf)
		return buf.Bytes(), "", err
	}
	zipper, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed) // the level is valid
	if err := write(zipper); err != nil {
		return nil, "", err
	}
	err = zipper.Close()
	return buf.Bytes(), "gzip", err
}
