package lead

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// armedAnnotation has the requests to arm that are not over, as JSON, the oldest first. The others see them at their
// next look at the Lease.
const armedAnnotation = "lapse/guard-armed"

const (
	// mostBytes is how many bytes they may have: some 60 requests. Of more the newest are told: the others know the
	// oldest.
	mostBytes = 8 << 10
	// mostKept is how many a guard keeps: more than fit.
	mostKept = 256
)

// A Request measures a Service at the full rate until an instant, in seconds. Why names the sign.
type Request struct {
	Service string    `json:"service"`
	Until   time.Time `json:"until"`
	Why     string    `json:"why"`
}

// An armed request is this guard's, or was read from the Lease.
type armed struct {
	Request
	mine bool
}

// Pass tells the other guards of a request that this one was sent. It returns once the Lease has it, within a second.
// It is an error if that takes longer than the leader may be silent: who leads next may not know of the request.
func (e *Election) Pass(ctx context.Context, r Request) error {
	ctx, cancel := context.WithTimeout(ctx, renewFor)
	defer cancel()
	r.Until = r.Until.UTC().Truncate(time.Second)
	e.mu.Lock()
	kept := time.Now()
	e.keep(armed{r, true})
	e.mu.Unlock()
	tick := time.NewTicker(every / 20)
	defer tick.Stop()
	for {
		e.mu.Lock()
		written, why := e.renewed.After(kept), e.failed
		e.mu.Unlock()
		if written {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(cmp.Or(why, "this guard does not lead"))
		case <-tick.C:
		}
	}
}

// keep drops the oldest request if there are too many. The caller holds mu.
func (e *Election) keep(a armed) {
	e.armed = append(e.armed, a)
	e.armed = e.armed[max(0, len(e.armed)-mostKept):]
}

// Passed returns the requests that other guards were sent and that are not over, the oldest first.
func (e *Election) Passed() (all []Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	for _, a := range e.armed {
		if !a.mine {
			all = append(all, a.Request)
		}
	}
	return all
}

// forget drops the requests that are over. The caller holds mu.
func (e *Election) forget() {
	now := time.Now()
	e.armed = slices.DeleteFunc(e.armed, func(a armed) bool { return !a.Until.After(now) })
}

// read takes in the requests in the Lease. What is none was not written by a guard. The caller holds mu.
func (e *Election) read(l *coordinationv1.Lease) {
	var all []Request
	text := ""
	if l != nil {
		text = l.Annotations[armedAnnotation]
	}
	if len(text) > mostBytes || json.Unmarshal([]byte(text), &all) != nil {
		return
	}
	for _, r := range all {
		if !slices.ContainsFunc(e.armed, func(a armed) bool { return a.Request == r }) {
			e.keep(armed{r, false})
		}
	}
	e.forget()
}

// text returns the requests as the annotation has them.
func (e *Election) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	all := make([]Request, 0, len(e.armed))
	for _, a := range e.armed {
		all = append(all, a.Request)
	}
	text, _ := json.Marshal(all) // which cannot fail
	for len(text) > mostBytes {
		all = all[1:]
		text, _ = json.Marshal(all)
	}
	return string(text)
}
