package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"lapse/internal/record"
	"net/http"
	"strconv"
	"time"
)

// Recorded is a process that measures and records, behind an API. Several goroutines call its methods. A client may
// call Ack more than once, because it repeats a request without an answer.
type Recorded interface {
	// Status has the phase [timeline.PhaseEnded] only once Size and SHA256 are final.
	Status() Status
	Now() time.Duration
	// Facts returns the recording's bytes from offset on. Its reader waits for more while the run goes on,
	// and ends with io.EOF only after the run's end. A tail of the recording is one. If the bytes at offset are not
	// kept any more, the error is a [record.ForgottenError].
	Facts(ctx context.Context, offset int64) (io.ReadCloser, error)
	Ack(record.Receipt) error // the recording is safe elsewhere; fails for the receipt of another recording
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

// recordedAPI returns the common part of the APIs of agent and prober.
func recordedAPI(service Recorded) *http.ServeMux {
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, service.Status()) })
	v1.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) { reply(w, clockReply{service.Now()}) })
	v1.HandleFunc("GET /v1/facts", facts(service))
	v1.HandleFunc("POST /v1/ack", taking(service.Ack))
	return v1
}

// facts returns a handler that streams the recording. The response ends properly only when the run has ended. Otherwise
// the connection breaks, and the client continues.
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
	if _, gone := errors.AsType[*record.ForgottenError](err); gone {
		fail(w, http.StatusGone, err)
		return
	}
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

// copyFlushing copies, and sends at once what it has read.
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

// taking returns a handler that calls take with the value in a request's body.
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
