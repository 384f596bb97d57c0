package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Path is where the gate answers.
const Path = "/v1/gate"

const (
	// MostWait is the longest wait=: what lies between a pipeline and the gate may end a longer request.
	MostWait = 15 * time.Second

	// MostWaiting is how many questions wait at once. More are answered at once, so that they take no connection from
	// those who only ask whether the guard is there.
	MostWaiting = 512

	mostName   = 253  // bytes of a name in Kubernetes
	mostBytes  = 1000 // of an answer; Argo Rollouts and Flagger keep no more
	retryAfter = "5"  // seconds
	// skew is how far ahead a pipeline's clock may be that does not say so by now=.
	skew = time.Minute
)

// A Gate answers over HTTP from a [Book], which any goroutine may change.
//
//	GET /v1/gate?service=NAMESPACE/NAME&hash=…|node=…|run=…|since=…  [&now=…] [&none=pass] [&wait=15s] [&pending=200]
//
// now is the time by the clock that since is of: if it is ahead of the guard's, since is that much earlier.
// A verdict is always 200: who asks must not take it for an error of the gate, which is tried again. A pending answer
// is 425 with Retry-After, which all take for an error, or 200 with pending=200. 404 is a Service that is not guarded,
// or a run that never was. 400 is a bad question.
type Gate struct {
	// Elsewhere returns a run of a Service that the book does not know; nil: none is kept elsewhere.
	Elsewhere func(service, run string) (r Run, ok bool)

	now func() time.Time

	waiting atomic.Int64 // questions

	mu      sync.Mutex
	book    Book
	changed chan struct{} // closed at the next change
}

// New returns a gate of no Service.
func New() *Gate { return &Gate{now: time.Now, changed: make(chan struct{})} }

// Change changes the book.
func (g *Gate) Change(do func(*Book)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do(&g.book)
	close(g.changed)
	g.changed = make(chan struct{})
}

// Answer answers a query now, as the book does.
func (g *Gate) Answer(q Query) (a Answer, problem string) {
	a, problem, _ = g.look(q)
	return a, problem
}

// Ended returns what [Book.Ended] does.
func (g *Gate) Ended(service string) (runs int, newest Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book.Ended(service)
}

// look answers, and returns what is closed when the answer may be another.
func (g *Gate) look(q Query) (a Answer, problem string, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, problem = g.book.Answer(q, g.now())
	return a, problem, g.changed
}

func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		Refuse(w, http.StatusMethodNotAllowed, "the gate is asked by GET")
		return
	}
	asked, err := read(r.URL.RawQuery, g.now())
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	a, problem := g.await(r, asked)
	if problem != "" && asked.Run != "" && g.Elsewhere != nil {
		if r, ok := g.Elsewhere(asked.Service, asked.Run); ok {
			a, problem = r.answer(), ""
		}
	}
	switch {
	case problem != "":
		Refuse(w, http.StatusNotFound, problem)
	case a.State == Pending && !asked.pending:
		w.Header().Set("Retry-After", retryAfter)
		Reply(w, http.StatusTooEarly, a)
	default:
		Reply(w, http.StatusOK, a)
	}
}

// await answers once the answer is not pending, or the wait is over, or at once if too many wait.
func (g *Gate) await(r *http.Request, q question) (Answer, string) {
	if q.wait > 0 {
		defer g.waiting.Add(-1)
		if g.waiting.Add(1) > MostWaiting {
			q.wait = 0
		}
	}
	over := time.NewTimer(q.wait)
	defer over.Stop()
	for {
		a, problem, changed := g.look(q.Query)
		if problem != "" || a.State != Pending || q.wait == 0 {
			return a, problem
		}
		select {
		case <-changed:
		case <-over.C:
			q.wait = 0
		case <-r.Context().Done():
			return a, problem
		}
	}
}

// A question is a query, and how it is to be answered.
type question struct {
	Query
	wait    time.Duration
	pending bool // with status 200
}

// read reads a question. It refuses what it does not know: a misspelled parameter would change the answer.
func read(query string, now time.Time) (q question, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, err
	}
	ahead := time.Duration(0) // the clock of who asks
	for name, given := range values {
		if len(given) != 1 || given[0] == "" {
			return q, fmt.Errorf("%s= must have one value", clip(name))
		}
		switch value := given[0]; name {
		case "service":
			q.Service = value
		case "hash":
			q.Hash = value
		case "node":
			q.Node = value
		case "run":
			q.Run = value
		case "since":
			if q.Since, err = ParseTime(value); err != nil && strings.Contains(value, " ") {
				err = fmt.Errorf("%w; in a URL + is %%2B", err)
			}
		case "now":
			theirs, wrong := ParseTime(value)
			ahead, err = max(0, theirs.Sub(now)), wrong
		case "none":
			if q.NonePasses = value == "pass"; !q.NonePasses {
				err = errors.New("pass is all that it can be")
			}
		case "wait":
			q.wait, err = time.ParseDuration(value)
		case "pending":
			if q.pending = value == "200"; !q.pending {
				err = errors.New("200 is all that it can be")
			}
		default:
			err = errors.New("known are service, hash, node, run, since, now, none, wait and pending")
		}
		if err != nil {
			return q, fmt.Errorf("%s=%s: %w", clip(name), clip(given[0]), err)
		}
	}
	if !q.Since.IsZero() {
		q.Since = q.Since.Add(-ahead)
	}
	return q, q.check(now)
}

func (q question) check(now time.Time) error {
	if err := q.Query.Check(); err != nil {
		return err
	}
	switch {
	case q.wait < 0 || q.wait > MostWait:
		return fmt.Errorf("wait=%v: from 0s to %v", q.wait, MostWait)
	case q.Since.After(now.Add(skew)):
		return errors.New(q.future(now))
	}
	return nil
}

// Check refuses a query that names no Service, or not one thing.
func (q Query) Check() error {
	namespace, name, ok := strings.Cut(q.Service, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("service=%s: must be NAMESPACE/NAME", clip(q.Service))
	}
	things := 0
	for _, thing := range []string{q.Hash, q.Node, q.Run} {
		if len(thing) > mostName {
			return fmt.Errorf("%s: no name is that long", clip(thing))
		}
		if thing != "" {
			things++
		}
	}
	switch {
	case things > 1, q.Run != "" && !q.Since.IsZero():
		return errors.New("ask about one of hash, node and run; since goes with hash and node")
	case q.NonePasses && (things > 0 || q.Since.IsZero()):
		return errors.New("that no disruption passes goes with since, and without hash, node and run")
	case things == 0 && q.Since.IsZero():
		return errors.New("ask about a hash, a node, a run, or since when: the gate does not say how it is now")
	}
	return nil
}

// ParseTime reads a time such as 2026-11-26T10:15:00Z.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = errors.New("must be a time such as 2026-11-26T10:15:00Z")
	}
	return t, err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clip returns the beginning of what somebody sent.
func clip(text string) string {
	const most = 100
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// Refuse answers with a status of 400 or more, and why. A w with a method Refused gets that, too.
func Refuse(w http.ResponseWriter, status int, why string) {
	if n, ok := w.(interface{ Refused(why string) }); ok {
		n.Refused(why)
	}
	Reply(w, status, refusal{why})
}

type refusal struct {
	Error string `json:"error"`
}

// Reply answers with a body as JSON. It is made of strings and times. An [Answer] is shortened.
func Reply(w http.ResponseWriter, status int, body any) {
	if a, ok := body.(Answer); ok {
		body = a.short()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body)) // who asked may have gone
}

func encode(body any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		panic(err) // it is made of strings and times
	}
	return text.Bytes()
}

// short returns an answer that takes at most [mostBytes].
func (a Answer) short() Answer {
	a.Run = clip(a.Run)
	for reason := []rune(a.Reason); len(encode(a)) > mostBytes && len(reason) > 0; {
		reason = reason[:len(reason)-len(reason)/8-1]
		a.Reason = string(reason) + "…"
	}
	return a
}
