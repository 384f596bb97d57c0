package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lapse/timeline"
)

// Status is how far the agent's run has come.
type Status struct {
	ID      string         `json:"id"`      // the run's ID
	Version string         `json:"version"` // of the agent's Lapse
	Phase   timeline.Phase `json:"phase"`
	Now     time.Duration  `json:"now"`             // on the run's clock
	Size    int64          `json:"size"`            // bytes of the recording that can be fetched
	SHA256  string         `json:"sha256,omitzero"` // of the whole recording, once the phase is [timeline.PhaseEnded]
	Detail  string         `json:"detail,omitzero"` // why, where the run ended otherwise than planned

	// Of a prober.
	Process string    `json:"process,omitzero"` // names the process: another one in the same Pod has another clock, and another recording
	T0      time.Time `json:"t0,omitzero"`      // what its wall clock said at its instant 0
}

// A Receipt names a whole recording: its length in bytes and its SHA-256 in hex.
type Receipt struct {
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"`
}

// Recorded is what measures and is recorded behind an API. Its methods are called from several goroutines, and Ack possibly more
// than once, because a client repeats what may have got lost.
type Recorded interface {
	// Status has the phase [timeline.PhaseEnded] only once Size and SHA256 are final.
	Status() Status
	Now() time.Duration
	// Facts returns the recording's bytes from offset on. Its reader waits for more while the run goes on,
	// and ends with io.EOF only after the run's end. A tail of the recording is one.
	Facts(ctx context.Context, offset int64) (io.ReadCloser, error)
	Ack(Receipt) error // the recording is safe elsewhere; fails if it is not this one
}

// A Service is the run behind the agent's API. Settle and Abort may be called more than once too.
type Service interface {
	Recorded
	// Event records what the workstation saw, already on the run's clock.
	Event(timeline.Event) error
	Settle(reason string) error // what was measured is over; go on to settling
	Abort(reason string) error  // end the run now
	// SignOfLife notes a call of the workstation that runs the command. Calls of others do not count.
	SignOfLife()
}

// Headers of POST /v1/events. A client numbers its events from 0, and the agent takes each number
// once, so that a post whose answer got lost can be repeated.
const (
	headerClient = "Lapse-Client"
	headerFirst  = "Lapse-First"
)

// headerRunsCommand is on every request of the workstation that runs the wrapped command.
const headerRunsCommand = "Lapse-Runs-Command"

const maxBody = 8 << 20

// NewServer returns a server of the agent's API under /v1/ and of the page everywhere else. The API answers only to the
// names of the local machine and takes nothing from pages of other origins, because a forwarded port
// on a workstation is within reach of every page its browser shows.
func NewServer(service Service, page http.Handler) *http.Server {
	return newServer(newHandler(service, page))
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// There is no WriteTimeout: the recording streams for as long as the run goes on.
	}
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
	mux.Handle("/v1/", localOnly(http.NewCrossOriginProtection().Handler(a.hearing(v1))))
	if page != nil {
		mux.Handle("/", page)
	}
	return mux
}

// recordedAPI is the part of the API that an agent and a prober have in common.
func recordedAPI(service Recorded) *http.ServeMux {
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, service.Status()) })
	v1.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) { reply(w, clockReply{service.Now()}) })
	v1.HandleFunc("GET /v1/facts", facts(service))
	v1.HandleFunc("POST /v1/ack", taking(service.Ack))
	return v1
}

type api struct {
	service Service

	mu    sync.Mutex
	taken map[string]uint64 // by client: the number of its next new event
}

type (
	clockReply struct {
		Now time.Duration `json:"now"`
	}
	reasonBody struct {
		Reason string `json:"reason"`
	}
	errorReply struct {
		Error string `json:"error"`
	}
)

// hearing passes requests on, and the workstation's sign of life in them.
func (a *api) hearing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerRunsCommand) != "" {
			a.service.SignOfLife()
		}
		next.ServeHTTP(w, r)
	})
}

// localOnly refuses requests whose Host is not a name of this machine: a page that had its own name
// rebound to 127.0.0.1 still sends that name.
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

// facts streams the recording. The response ends properly only when the run has ended; everything else
// breaks it off, so that the client knows to come back.
func facts(service Recorded) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { sendFacts(w, r, service) }
}

func sendFacts(w http.ResponseWriter, r *http.Request, service Recorded) {
	offset, err := strconv.ParseInt(r.FormValue("offset"), 10, 64)
	if r.FormValue("offset") == "" {
		offset, err = 0, nil
	}
	if err != nil || offset < 0 {
		fail(w, http.StatusBadRequest, fmt.Errorf("offset %q is not a number of bytes", r.FormValue("offset")))
		return
	}
	facts, err := service.Facts(r.Context(), offset)
	if err != nil {
		fail(w, http.StatusRequestedRangeNotSatisfiable, err)
		return
	}
	defer facts.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := copyFlushing(w, facts); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// copyFlushing sends on at once what it reads.
func copyFlushing(w http.ResponseWriter, r io.Reader) error {
	response := http.NewResponseController(w)
	if err := response.Flush(); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := response.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
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

// take hands on those events that were not taken before.
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

// taking hands on the value that a request's body holds.
func taking[T any](take func(T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var value T
		if !body(w, r, &value) {
			return
		}
		if err := take(value); err != nil {
			fail(w, http.StatusConflict, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func reasoned(do func(reason string) error) http.HandlerFunc {
	return taking(func(why reasonBody) error { return do(why.Reason) })
}

// body reads the request's JSON into value, or replies why it cannot.
func body(w http.ResponseWriter, r *http.Request, value any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(value)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("body: %w", err))
		return false
	}
	return true
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // fails only if the client has gone
}

func fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errorReply{err.Error()})
}
