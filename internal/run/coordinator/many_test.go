package coordinator

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/kube/kubetest"
	"lapse/internal/run/runtest"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// One question answers all who asked before it was asked, and nobody else.
func TestManyAskOnceForASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var dead atomic.Bool
		began := time.Now()
		l := life{now: func() time.Duration { return time.Since(began) }, last: -askEvery, ask: func(string, string) bool {
			asked.Add(1)
			time.Sleep(10 * time.Millisecond) // of virtual time
			return !dead.Load()
		}}
		answers := make(chan time.Duration, 10)
		for _, at := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 150 * time.Millisecond} {
			go func() {
				time.Sleep(time.Second + at) // the first question is asked at once
				if !l.gives(t.Context(), "shop", "web") {
					t.Errorf("who asks after %v gets no sign of life", at)
				}
				answers <- time.Since(began) - time.Second
			}()
		}
		time.Sleep(3 * time.Second)
		want := []time.Duration{10 * time.Millisecond, 210 * time.Millisecond, 210 * time.Millisecond, 210 * time.Millisecond}
		for i, w := range want {
			if got := <-answers; got != w {
				t.Errorf("answer %d after %v, want %v", i, got, w)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		if dead.Store(true); l.gives(t.Context(), "shop", "web") {
			t.Error("it is alive")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if l.gives(ctx, "shop", "web") {
			t.Error("a sign of life, and nobody waited for it")
		}
		time.Sleep(time.Second)
	})
}

// A run has the version of the cluster on record that it had a minute before at most, and the last one that is known.
func TestARunHasTheVersionOfItsBeginning(t *testing.T) {
	client := fake.NewSimpleClientset()
	has := client.Discovery().(*fakediscovery.FakeDiscovery)
	all := NewMany(kubetest.Client(client), "", slog.New(slog.DiscardHandler))
	for _, step := range []struct{ is, want string }{{"v1.37.0", "v1.37.0"}, {"", "v1.37.0"}, {"v1.37.1", "v1.37.1"}} {
		has.FakedServerVersion = &version.Info{GitVersion: step.is}
		all.describe(t.Context())
		meta := timeline.Meta{Cluster: timeline.Cluster{Version: "v1.36.3", ProxyMode: "nftables"}}
		all.begins(spec.Spec{Cluster: meta.Cluster}, &meta)
		want := timeline.Cluster{Version: step.want, ProxyMode: "nftables"}
		if meta.Cluster != want || !strings.Contains(string(meta.Spec), step.want) {
			t.Errorf("the version is %q, on record are %+v and %s", step.is, meta.Cluster, meta.Spec)
		}
	}
}

// Who may not read kube-proxy's configuration asks again an hour later only: each refusal is a line in the audit log.
func TestADeniedProxyIsNotAskedForEachMinute(t *testing.T) {
	proxy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}, Data: map[string]string{"config.conf": "mode: nftables"}}
	client := fake.NewSimpleClientset(proxy)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.37.0"}
	denied, asked := true, 0
	client.PrependReactor("get", "configmaps", func(a ktesting.Action) (bool, runtime.Object, error) {
		asked++
		return denied, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "kube-proxy", nil)
	})
	all := NewMany(kubetest.Client(client), "", slog.New(slog.DiscardHandler))
	for range time.Hour / describeEvery {
		all.describe(t.Context())
	}
	if c := all.cluster.Load(); asked != 1 || c.ProxyMode != "" || c.Version != "v1.37.0" {
		t.Errorf("denied: asked %d times in an hour, known is %+v", asked, c)
	}
	denied = false
	for range 3 {
		all.describe(t.Context())
	}
	if c := all.cluster.Load(); asked != 4 || c.ProxyMode != "nftables" {
		t.Errorf("granted: asked %d times, known is %+v", asked, c)
	}
}

// A collector that kept to the limit would take a core.
func TestManyRaiseTheMemoryLimit(t *testing.T) {
	const low = 1 << 20
	before := debug.SetMemoryLimit(low)
	defer debug.SetMemoryLimit(before)
	all := NewMany(kubetest.Client(fake.NewSimpleClientset()), "", slog.New(slog.DiscardHandler))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { all.Run(over); close(ended) }()
	runtest.WaitFor(t, "a higher limit", func() bool { return debug.SetMemoryLimit(-1) > low })
	close(over)
	<-ended
}
