package coordinator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"lapse/internal/kube/kubetest"
	"lapse/internal/run/plane"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// askedPlane lets a measurement that waits for signs ask the API servers. turn switches the full rate, and returns which
// targets are asked then.
func askedPlane(t *testing.T, o *spec.Options, config *rest.Config) (m *measurement, turn func(on bool) (asked []string)) {
	t.Helper()
	m, _ = idleMeasurement(t, o)
	m.Client, m.REST = kubetest.Client(fake.NewClientset()), config
	m.Services = []spec.Service{{Info: watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web"}}, Measured: true}}
	m.Prober = source.New(source.Config{Clock: m.Clock, Sink: m.Queue.Put})
	m.Targets = map[timeline.TargetID]timeline.Target{}
	m.Add(m.meta())
	var full atomic.Bool
	m.raised = full.Load
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.askAPIServers(ctx) })
	running.Go(func() {
		for {
			select {
			case do := <-m.Calls:
				do()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { stop(); running.Wait(); m.Live.End(nil) })
	return m, func(on bool) (asked []string) {
		full.Store(on)
		time.Sleep(time.Second) // of virtual time
		synctest.Wait()
		state := map[string]string{}
		for _, e := range m.Live.Tracker.Timeline().Events {
			if e.Kind == timeline.TargetChanged {
				state[e.Object.Name] = e.To
			}
		}
		for name, is := range state {
			if is == "measuring" {
				asked = append(asked, name)
			}
		}
		slices.Sort(asked)
		return asked
	}
}

// A guard only watches while nothing happens: the API servers are asked from a sign on, and no longer than the full rate
// lasts. The second time they are the same targets.
func TestAPIServersAreAskedWhileTheFullRateIsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := &plane.Servers{Addrs: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:6443")}}
		o := &spec.Options{Spec: spec.Spec{ControlPlane: true, APIServers: servers, Timeout: time.Second}}
		direct := func(*http.Request) (*url.URL, error) { return nil, nil }
		m, turn := askedPlane(t, o, &rest.Config{Host: "https://10.96.0.1:443", Proxy: direct})
		want := "[API 10.0.0.1:6443 list API 10.0.0.1:6443 livez API 10.0.0.1:6443 readyz]"
		for i, on := range []bool{false, true, false, true} {
			asked := fmt.Sprint(turn(on))
			if on && asked != want || !on && asked != "[]" {
				t.Errorf("%d: full rate %t: asked %s", i, on, asked)
			}
		}
		if len(m.Targets) != 3 {
			t.Errorf("targets %v", m.Targets)
		}
	})
}

// What cannot be asked is said, and the rest is measured.
func TestWhyNoAPIServerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &spec.Options{Spec: spec.Spec{ControlPlane: true, Timeout: time.Second}}
		m, turn := askedPlane(t, o, &rest.Config{Host: "https://10.96.0.1:443", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
			Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
		if asked := turn(true); len(asked) > 0 {
			t.Errorf("asked %v", asked)
		}
		if p := m.Live.Tracker.Timeline().ControlPlane; p == nil || !strings.Contains(p.NotAsked, "insecure-skip-tls-verify") {
			t.Errorf("control plane %+v", p)
		}
	})
}
