package agent

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"

	"lapse/timeline"
)

// A Service is the run behind the agent's API. Settle and Abort may be called more than once.
type Service interface {
	Recorded
	// Event records what the workstation saw, already on the run's clock.
	Event(timeline.Event) error
	Settle(reason string) error // the measured change is over; go on to settling
	Abort(reason string) error  // end the run now
	// SignOfLife notes a call of the workstation that runs the command, and of no other.
	SignOfLife()
}

// NewServer returns a server of the agent's API under /v1/, and of the page everywhere else. Any page in a browser on a
// workstation can reach a forwarded port, so the API accepts only Host names of the local machine, and no request from
// pages of other origins.
func NewServer(service Service, page http.Handler) *http.Server {
	return newServer(newHandler(service, page))
}

func newHandler(service Service, page http.Handler) http.Handler {
	a := &api{service: service, taken: map[string]uint64{}}
	v1 := recordedAPI(service)
	v1.HandleFunc("POST /v1/events", a.events)
	v1.HandleFunc("POST /v1/settle", reasoned(service.Settle))
	v1.HandleFunc("POST /v1/abort", reasoned(service.Abort))
	if outside, ok := service.(OutsideService); ok {
		outsideAPI(v1, outside)
	}

	mux := http.NewServeMux()
	mux.Handle("/v1/", localOnly(http.NewCrossOriginProtection().Handler(a.signsOfLife(v1))))
	if page != nil {
		mux.Handle("/", page)
	}
	return mux
}

type api struct {
	service Service

	mu    sync.Mutex
	taken map[string]uint64 // by client: the number of its next new event
}

// signsOfLife returns next, but notes requests of the workstation that runs the command.
func (a *api) signsOfLife(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerRunsCommand) != "" {
			a.service.SignOfLife()
		}
		next.ServeHTTP(w, r)
	})
}

// localOnly refuses requests whose Host is not a name of this machine. A page whose name was rebound to 127.0.0.1 still
// sends its own name.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			fail(w, http.StatusForbidden, fmt.Errorf("this API answers to localhost only, not to %q", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "[::1]"
}

func (a *api) events(w http.ResponseWriter, r *http.Request) {
	first, err := strconv.ParseUint(r.Header.Get(headerFirst), 10, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("header %s: %w", headerFirst, err))
		return
	}
	var events []timeline.Event
	if !body(w, r, &events) {
		return
	}
	if err := a.take(r.Header.Get(headerClient), first, events); err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// take passes on events that were not taken before.
func (a *api) take(client string, first uint64, events []timeline.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, event := range events {
		number := first + uint64(i)
		if number < a.taken[client] {
			continue
		}
		if err := a.service.Event(event); err != nil {
			return err
		}
		a.taken[client] = number + 1
	}
	return nil
}
