package guard

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"lapse/internal/guard/lead"
)

// A Leader says which of several guards speaks. All of them measure, so that none has to take over what another has
// begun.
type Leader interface {
	// Run takes part in the election until ctx ends, and does not win before it is ready.
	Run(ctx context.Context, ready func() bool)
	Leads() bool     // whether this guard speaks
	Other() string   // where the one answers that speaks, HOST:PORT; "" if this one does, or nobody is known to
	Problem() string // why it cannot take part in the election; "" if it can

	// Pass tells the others of a request to arm that this one was sent; an error if they may not know of it.
	Pass(context.Context, lead.Request) error
	Passed() []lead.Request // those that others were sent, and that are not over
}

// othersFor is how long a guard waits for the one that leads to tell of a run: longer than it takes until another one
// leads, if that one has ended.
const othersFor = 10 * time.Second

// speaks reports whether this guard tells what it has measured. While none leads, it waits until an instant. One of
// several that ends does not speak: what it breaks off, another one measures to its end.
func (g *guard) speaks(until time.Time) bool {
	if g.Leader == nil {
		return true
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for patient := g.now().Add(othersFor); ; {
		switch now := g.now(); {
		case g.ends():
			return false
		case g.Leader.Leads():
			return true
		case g.Leader.Other() != "" && !now.Before(patient), !now.Before(until):
			return false
		}
		select {
		case <-look.C:
		case <-g.over:
		}
	}
}

// ends reports whether the guard ends.
func (g *guard) ends() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

// mostDial is how long connecting to the guard that leads may take. If its node is gone, nothing refuses it.
const mostDial = time.Second

// forwardedHeader marks what one guard asks another, which answers it itself.
const forwardedHeader = "Lapse-Forwarded"

// speaking returns a handler that lets the guard answer that speaks. If that one does not, h does: it has measured,
// too.
func (g *guard) speaking(h http.Handler) http.Handler {
	if g.Leader == nil {
		return h
	}
	dial := g.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, mostDial)
			defer cancel()
			return dial(ctx, network, address)
		},
		DisableKeepAlives: true, // a kept connection does not show either that the node is gone
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other := g.Leader.Other()
		if other == "" || r.Header.Get(forwardedHeader) != "" || !strings.HasPrefix(r.URL.Path, "/v1/") {
			h.ServeHTTP(w, r)
			return
		}
		proxy := httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(&url.URL{Scheme: "http", Host: other})
				p.Out.Header.Set(forwardedHeader, "1")
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				if r.Method != http.MethodGet { // its body may be read
					http.Error(w, "the guard that leads does not answer: "+err.Error(), http.StatusBadGateway)
					return
				}
				h.ServeHTTP(w, r)
			},
		}
		proxy.ServeHTTP(w, r)
	})
}

// serveReady answers 200 once each Service that was annotated at first is measured, or it is known why it is not. So a
// Deployment ends the guard before only when this one measures.
func (g *guard) serveReady(w http.ResponseWriter, _ *http.Request) {
	if waits := g.waitsFor(); waits != "" {
		http.Error(w, waits, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // who asked may have gone
}

// waitsFor says what is missing until the guard is ready; "" once it was.
func (g *guard) waitsFor() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	waits := slices.Sorted(maps.Keys(g.services))
	waits = slices.DeleteFunc(waits, func(name string) bool { return g.ready || g.services[name].known() })
	if g.ready = g.listed && len(waits) == 0; g.ready {
		return ""
	}
	if !g.listed {
		return unlisted
	}
	return fmt.Sprintf("not measured yet: %q", waits)
}

// known reports whether a Service is measured, or it is known why it is not.
func (s *service) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.State != starting || s.status.Problem != ""
}
