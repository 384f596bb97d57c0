// Package nodecheck asks each node what a load balancer outside of the cluster asks it to find out whether to send it
// connections, and says when the answers change.
//
// That is kube-proxy's health check, http://NODE:10256/healthz, and of a Service with externalTrafficPolicy: Local
// its own health-check node port.
// https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy
package nodecheck

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lapse/timeline"
)

const (
	// Interval is the time between two checks of one port of a node.
	Interval = time.Second
	// Timeout is how long an answer is awaited.
	Timeout = 800 * time.Millisecond
)

// A Check is a port of a node that is asked.
type Check struct {
	Node    string
	Addr    netip.AddrPort
	Path    string // as in /healthz
	Service string // NAMESPACE/NAME of the Service whose health-check node port it is; empty: kube-proxy's own
}

// Config says how to ask.
type Config struct {
	Checks   <-chan []Check       // what to ask from now on, instead of what was asked before
	Interval func() time.Duration // between two checks of one port, as of now; nil: [Interval]
	Clock    timeline.Clock
	Sink     func(timeline.Fact) // gets events of kind node-check; it must not block

	ask func(context.Context, Check) (state, detail string) // for tests; nil: over HTTP
}

// look is how often it is looked whether the interval has become shorter.
const look = time.Second

// An answer is what came of one check.
type answer struct {
	of            *history
	sent, done    time.Duration
	state, detail string
}

// Run asks nodes until ctx ends. They are asked one after the other in each interval, not all at once.
func Run(ctx context.Context, c Config) {
	if c.Interval == nil {
		c.Interval = func() time.Duration { return Interval }
	}
	if c.ask == nil {
		c.ask = over(newClient(Timeout))
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	answers := make(chan answer)
	var ports []*history              // in the order in which they are asked next
	last := c.Clock.Now() - time.Hour // long ago
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case checks := <-c.Checks:
			ports = follow(ports, checks)
		case <-timer.C:
		case a := <-answers:
			a.of.asked = false
			if e, changed := a.of.next(a.sent, a.done, a.state, a.detail); changed && slices.Contains(ports, a.of) {
				c.Sink(e)
			}
			continue
		case <-ctx.Done():
			return
		}
		if len(ports) == 0 {
			continue
		}
		now, step := c.Clock.Now(), c.Interval()/time.Duration(len(ports))
		if wait := last + step - now; wait > 0 {
			timer.Reset(min(wait, look))
			continue
		}
		next := ports[0]
		ports, last = append(ports[1:], next), now
		timer.Reset(min(step, look))
		if next.asked {
			continue
		}
		next.asked = true
		asking.Go(func() {
			a := answer{of: next, sent: c.Clock.Now()}
			a.state, a.detail = c.ask(ctx, next.check)
			a.done = c.Clock.Now()
			select {
			case answers <- a:
			case <-ctx.Done(): // it was the end that cut the request off
			}
		})
	}
}

// follow returns what is to be asked now: what was asked before as far as it is among the checks, and then the others.
func follow(ports []*history, checks []Check) (all []*history) {
	known := map[Check]bool{}
	for _, p := range ports {
		if slices.Contains(checks, p.check) {
			all, known[p.check] = append(all, p), true
		}
	}
	for _, check := range checks {
		if !known[check] {
			all = append(all, &history{check: check})
		}
	}
	return all
}

// newClient returns a client that follows no redirect, uses no proxy, and waits for so long for an answer.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// over returns a function that says in which state a port is, as one of timeline's, and what it answered.
func over(client *http.Client) func(context.Context, Check) (state, detail string) {
	return func(ctx context.Context, check Check) (state, detail string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+check.Addr.String()+check.Path, nil)
		if err != nil {
			return timeline.CheckUnanswered, err.Error()
		}
		response, err := client.Do(request)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return timeline.CheckRefused, "connection refused"
		case err != nil:
			return timeline.CheckUnanswered, withoutURL(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, longestDetail))
		if response.StatusCode == http.StatusOK {
			return timeline.CheckHealthy, response.Status
		}
		return timeline.CheckUnhealthy, strings.TrimSpace(response.Status + " " +
			strings.Join(strings.Fields(string(body)), " "))
	}
}

// longestDetail bounds how much of an answer is kept, in bytes.
const longestDetail = 300

// withoutURL returns an error's text without the request that it begins with.
func withoutURL(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// A history makes events of what came of the checks of one port, in their order.
type history struct {
	check Check
	asked bool          // its answer is awaited
	state string        // as in the last event; empty: none
	since time.Duration // when the last check was sent that was answered so
}

// next takes in what came of the next check. It returns the event that follows, if there is one.
//
//	sent 0 healthy, sent 1 s healthy, sent 2 s no answer by 2.8 s   →   healthy → unanswered, Since 1 s, Seen 2.8 s
func (h *history) next(sent, done time.Duration, state, detail string) (e timeline.Event, changed bool) {
	if h.state == state {
		h.since = sent
		return e, false
	}
	e = timeline.Event{
		Kind: timeline.NodeChecked, Seen: done, From: h.state, To: state, Detail: detail,
		Object:  timeline.Object{Kind: "Node", Name: h.check.Node, Node: h.check.Node},
		Addr:    h.check.Addr.Addr(),
		Port:    h.check.Addr.Port(),
		Service: h.check.Service,
	}
	if h.state != "" {
		e.Since = h.since
	}
	h.state, h.since = state, sent
	return e, true
}
