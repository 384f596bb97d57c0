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
	Checks <-chan []Check // what to ask from now on, instead of what was asked before
	Clock  timeline.Clock
	Sink   func(timeline.Fact) // gets events of kind node-check; it must not block

	interval, timeout time.Duration // for tests; 0: as above
}

// Run asks nodes until ctx ends. They are asked one after the other in each interval, not all at once.
func Run(ctx context.Context, c Config) {
	if c.interval == 0 {
		c.interval, c.timeout = Interval, Timeout
	}
	client := &http.Client{
		Timeout:       c.timeout,
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	asked := map[Check]context.CancelFunc{}
	for {
		select {
		case checks := <-c.Checks:
			for check, stop := range asked {
				if !slices.Contains(checks, check) {
					stop()
					delete(asked, check)
				}
			}
			for i, check := range checks {
				if asked[check] != nil {
					continue
				}
				checking, stop := context.WithCancel(ctx)
				asked[check] = stop
				delay := c.interval * time.Duration(i) / time.Duration(len(checks))
				asking.Go(func() { c.repeat(checking, client, check, delay) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// repeat asks one port, at first after a delay, until ctx ends.
func (c Config) repeat(ctx context.Context, client *http.Client, check Check, delay time.Duration) {
	first := time.NewTimer(delay)
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
		return
	}
	due := time.NewTicker(c.interval)
	defer due.Stop()
	history := history{check: check}
	for {
		sent := c.Clock.Now()
		state, detail := ask(ctx, client, check)
		if ctx.Err() != nil {
			return // it was the end that cut the request off
		}
		if e, changed := history.next(sent, c.Clock.Now(), state, detail); changed {
			c.Sink(e)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask says in which state a port is, as one of timeline's, and what it answered.
func ask(ctx context.Context, client *http.Client, check Check) (state, detail string) {
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
