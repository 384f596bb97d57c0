package watcher

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
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

// The API server's watch cache may lag behind its storage, from which it answers reads.
func TestEndpointChangedBeforeReadsHadItHoweverLateTheWatchIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ending := with(slice("web-a", endpointOf(pod(1), terminatingServing)), version("2"))
		c := newCluster(t, service(), pod(1), with(slice("web-a", endpointOf(pod(1), ready)), version("1")))
		var lags atomic.Bool
		c.client.PrependReactor("get", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			return lags.Load(), ending, nil
		})
		c.start()
		c.happened()
		time.Sleep(2050 * time.Millisecond)
		lags.Store(true)
		time.Sleep(3 * time.Second)
		lags.Store(false)
		c.putSlice(ending)
		c.expect("5.05s endpoint since=2s web-1 on=node1 addr=10.0.0.1 ready>terminating+serving port=8080")

		time.Sleep(time.Second)
		c.refuse("get endpointslices", apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), "web-a"))
		time.Sleep(3 * time.Second)
		c.check(c.client.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), "web-a", metav1.DeleteOptions{}))
		c.expect("9.05s endpoint since=6s web-1 on=node1 addr=10.0.0.1 terminating+serving>absent port=8080")
		c.end()
	})
}

// The reads tell how late the watch was, unless they left out the time of the change themselves.
func TestWideBoundIsUsedOnlyIfTheWatchWasLate(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name       string
		old, newer time.Duration // when the old version was read last, and the new one first; 0: never
		began      time.Duration // when reads began again
		want       time.Duration
	}{
		{"read just before", 99900 * ms, 0, 0, 99900 * ms},
		{"not read for long", 50 * s, 0, 0, 0},
		{"read again only as it changed", 50 * s, 99950 * ms, 0, 0},
		{"the watch was 1.2 s late", 98700 * ms, 98800 * ms, 0, 98700 * ms},
		{"it changed between two reads far apart, 1 s before or less", 98500 * ms, 99500 * ms, 0, 0},
		{"between two reads, a little more than 1 s before or a little less", 98950 * ms, 99050 * ms, 0, 98950 * ms},
		{"the watch was late, and nothing read it before", 0, 90 * s, 0, time.Microsecond},
		{"the watch was late, and the old version was read weeks ago", 50 * s, 98500 * ms, 98400 * ms, 97400 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r reads
			of := func(v string) *discoveryv1.EndpointSlice { return with(slice("web-a"), version(v)) }
			r.changed(nil, of("1"), 0)
			if tt.old > 0 {
				r.read("web-a", "1", tt.old, tt.old)
			}
			if tt.began > 0 {
				r.begin(tt.began)
			}
			if tt.newer > 0 {
				r.read("web-a", "2", tt.newer, tt.newer)
			}
			if since := r.changed(of("1"), of("2"), 100*s); since != tt.want {
				t.Errorf("since %v, want %v", since, tt.want)
			}
		})
	}
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
	r.changed(nil, of("1"), 0)
	r.read("web-a", "1", 1, 1)
	r.read("web-a", "1", 2, 2)
	r.read("web-a", "2", 3, 3)
	r.read("web-a", "3", 4, 4)
	if since := r.changed(of("1"), of("2"), 5); since != 2 {
		t.Errorf("version 2 came after %v, want 2: at 3 it was there", since)
	}
	if since := r.changed(of("2"), of("3"), 5); since != 3 {
		t.Errorf("version 3 came after %v, want 3", since)
	}
	if since := r.changed(of("3"), nil, 5); since != 4 {
		t.Errorf("it went after %v, want 4", since)
	}
	r.read("web-a", "3", 5, 5)
	if _, ok := r.next(); ok {
		t.Error("a slice that is gone is read on")
	}
}

func TestSlicesAreReadInTurn(t *testing.T) {
	var r reads
	for _, name := range []string{"a", "b", "c"} {
		r.changed(nil, slice(name), 0)
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
