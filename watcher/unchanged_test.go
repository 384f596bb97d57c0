package watcher

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func version(v string) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) { s.ResourceVersion = v }
}

func TestEndpointChangedAfterItsSliceWasLastReadUnchanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), with(slice("web-a", endpointOf(pod(1), ready)), version("1")))
		c.start()
		c.happened()
		time.Sleep(2050 * time.Millisecond)
		c.putSlice(with(slice("web-a", endpointOf(pod(1), terminatingServing)), version("2")))
		c.expect("2.05s endpoint since=2s web-1 on=node1 addr=10.0.0.1 ready>terminating+serving port=8080")

		c.refuse("get endpointslices", errors.New("connection refused"))
		time.Sleep(500 * time.Millisecond)
		c.putSlice(with(slice("web-a", endpointOf(pod(1), terminating)), version("3")))
		c.expect("2.55s endpoint since=2s web-1 on=node1 addr=10.0.0.1 terminating+serving>terminating port=8080") // version 2 was never read, and came after 1
		c.allow("get endpointslices")
		time.Sleep(420 * time.Millisecond)
		c.refuse("get endpointslices", errors.New("connection refused"))
		time.Sleep(1600 * time.Millisecond)
		c.putSlice(with(slice("web-a"), version("4")))
		c.expect("4.57s endpoint web-1 on=node1 addr=10.0.0.1 terminating>absent port=8080") // last read too long before
		c.end()
	})
}

// Who waits for a disruption only watches, and reads from its first sign on.
func TestSlicesAreReadOnlyWhenAskedTo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), with(slice("web-a", endpointOf(pod(1), ready)), version("1")))
		var wanted atomic.Bool
		c.reads = wanted.Load
		c.start()
		read := func() (n int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, call := range c.calls {
				if call == "get endpointslices" {
					n++
				}
			}
			return n
		}
		time.Sleep(10 * time.Second)
		if n := read(); n > 0 {
			t.Errorf("%d reads", n)
		}
		wanted.Store(true)
		time.Sleep(time.Second)
		if n := read(); n < 9 {
			t.Errorf("%d reads in a second", n)
		}
		c.happened()
		c.end()
	})
}

func TestReadOfAVersionThatTheWatchHasNotToldOfBoundsNothing(t *testing.T) {
	var r reads
	of := func(v string) *discoveryv1.EndpointSlice { return with(slice("web-a"), version(v)) }
	r.changed(nil, of("1"))
	r.read("web-a", "1", 1)
	r.read("web-a", "1", 2)
	r.read("web-a", "2", 3)
	r.read("web-a", "3", 4)
	if since := r.changed(of("1"), of("2")); since != 2 {
		t.Errorf("version 2 came after %v, want 2: at 3 it was there", since)
	}
	if since := r.changed(of("2"), of("3")); since != 3 {
		t.Errorf("version 3 came after %v, want 3", since)
	}
	if since := r.changed(of("3"), nil); since != 4 {
		t.Errorf("it went after %v, want 4", since)
	}
	r.read("web-a", "3", 5)
	if _, ok := r.next(); ok {
		t.Error("a slice that is gone is read on")
	}
}

func TestSlicesAreReadInTurn(t *testing.T) {
	var r reads
	for _, name := range []string{"a", "b", "c"} {
		r.changed(nil, slice(name))
	}
	var order string
	for range 4 {
		s, _ := r.next()
		order += s.name
	}
	if order != "abca" {
		t.Errorf("read in the order %s, want abca", order)
	}
}
