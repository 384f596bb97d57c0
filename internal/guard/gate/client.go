package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lapse/internal/hint"
)

// A Client asks a gate.
type Client struct {
	Address string // such as http://lapse-guard.lapse.svc:7117

	Do    func(*http.Request) (*http.Response, error) // default: that of http.DefaultClient
	Pause time.Duration                               // before the gate is asked again; default: 1 s
	// Refuses reports whether an error of Do will not be another one by waiting; nil: none is.
	Refuses func(error) bool
}

// A RefusedError says that the gate does not answer such a question: it is a bad one, or the Service is not guarded.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Await asks until the answer is not pending, at most for wait. A gate that does not answer in that time is
// inconclusive: nobody knows. An error is a [RefusedError], or that of ctx.
func (c Client) Await(ctx context.Context, q Query, wait time.Duration) (Answer, error) {
	if err := q.Check(); err != nil {
		return Answer{}, &RefusedError{err.Error()}
	}
	began := time.Now()
	for {
		left := max(0, wait-time.Since(began))
		a, err := c.ask(ctx, q, min(left, MostWait))
		_, refused := errors.AsType[*RefusedError](err)
		switch {
		case ctx.Err() != nil:
			return Answer{}, context.Cause(ctx)
		case refused:
			return Answer{}, err
		case err != nil:
			a = Answer{State: Inconclusive, Reason: err.Error()}
			if advice := hint.Of(err); advice != "" {
				a.Reason += " (" + advice + ")"
			}
		case a.State != Pending:
			return a, nil
		}
		if time.Since(began) >= wait {
			return a, nil
		}
		pause := time.NewTimer(min(cmp.Or(c.Pause, time.Second), wait-time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// ask asks once.
func (c Client) ask(ctx context.Context, q Query, wait time.Duration) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(q, wait), nil)
	if err != nil {
		return a, &RefusedError{err.Error()}
	}
	do := c.Do
	if do == nil {
		do = http.DefaultClient.Do
	}
	reply, err := do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the address of a tunnel
	}
	if c.Refuses != nil && c.Refuses(err) {
		return a, &RefusedError{err.Error()}
	}
	if err != nil {
		return a, fmt.Errorf("the guard does not answer: %w", err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	if err != nil {
		return a, fmt.Errorf("the guard does not answer: %w", err)
	}
	switch reply.StatusCode {
	case http.StatusOK, http.StatusTooEarly:
		if err := json.Unmarshal(body, &a); err != nil || !slices.Contains(states, a.State) {
			return a, fmt.Errorf("%s is no gate: it answered %.100q", c.Address, body)
		}
		return a, nil
	case http.StatusBadRequest, http.StatusNotFound:
		var why refusal
		if json.Unmarshal(body, &why) == nil && why.Error != "" {
			return a, &RefusedError{why.Error}
		}
	}
	return a, fmt.Errorf("%s is no gate: it answered %s", c.Address, reply.Status)
}

var states = []State{Pass, Fail, Inconclusive, Pending}

func (c Client) url(q Query, wait time.Duration) string {
	values := url.Values{"service": {q.Service}}
	for name, value := range map[string]string{"hash": q.Hash, "node": q.Node, "run": q.Run} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		values.Set("since", q.Since.Format(time.RFC3339Nano))
		values.Set("now", time.Now().Format(time.RFC3339Nano))
	}
	if q.NonePasses {
		values.Set("none", "pass")
	}
	if wait > 0 {
		values.Set("wait", wait.String())
	}
	return strings.TrimSuffix(c.Address, "/") + Path + "?" + values.Encode()
}
