package guard

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/guard/configmap"
	"lapse/internal/guard/events"
	"lapse/internal/guard/store"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/saved"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
)

var days = flag.Int("guard.days", 2, "days of rollouts that are measured; make truth takes 7")

const (
	rolloutEvery = 36 * time.Minute // 40 a day
	keepSize     = 1 << 20          // of the runs of about a day
)

// A week is one of rollouts of a Service. The loop that measures it is the real one; its requests are made up.
type week struct {
	*past
	loop   *measure.Loop
	events int // that were written
}

// fails reports whether the request that is due then fails: those of a second, in every third rollout.
func (*week) fails(due time.Duration) bool {
	return due > rolloutEvery && due/rolloutEvery%3 == 0 && due%rolloutEvery < time.Second
}

func (w *week) measure(ctx context.Context, _ *spec.Options, k coordinator.Keeper, log *slog.Logger) error {
	failed, err := verdict.ParseGate("failed>0")
	if err != nil {
		return err
	}
	l := measure.NewLoop(measure.Settings{Baseline: time.Second, Settle: time.Minute, Timeout: time.Second}, log)
	l.Clock, l.Live = timeline.StartClock(), live.New(nil)
	l.Armed = &measure.Armed{
		IdleRate: 5, Ended: k.Ended, Fact: k.Fact, Signed: k.Signed, Say: func(string) {},
		Begin: func(meta *timeline.Meta) *live.Run {
			l.Rec = k.Begin(meta)
			return live.New([]verdict.Gate{failed}, l.Rec)
		},
	}
	l.Entered = func(phase timeline.Phase, detail string) {
		switch phase {
		case timeline.PhaseArmed:
			k.Stands(coordinator.Idle, "")
		case timeline.PhaseMeasuring:
			k.Stands(coordinator.Recording, detail)
		}
	}
	l.Describe(timeline.Meta{
		T0: l.Clock.T0(), Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
		Options: timeline.Options{Join: time.Second, Timeout: time.Second, Settle: time.Minute, Gates: []string{"failed>0"}},
	}, timeline.Source{ID: 1, Name: "here", T0: l.Clock.T0()})
	target := timeline.Target{Name: "new", Kind: timeline.New, Rate: 100, URL: "http://web", Service: "shop/web"}
	if err := l.StartTarget(loadgen.Probe{Target: target}); err != nil {
		return err
	}
	defer l.Prober.Close()
	send := w.send(&l)
	go source.Every(ctx, live.Refresh, func() { // the loop may rest for longer
		select {
		case l.Calls <- func() { send(l.Clock.Now()) }:
		case <-ctx.Done():
		}
	})
	l.Phase = timeline.PhaseStarting
	l.Waits = &measure.Awaited{Longest: 1, Missing: func() string { return "" }} // for nobody
	w.loop = &l
	l.Phases(ctx, nil)
	return nil
}

// send hands over the requests that were due since the last call. Each takes a millisecond.
func (w *week) send(l *measure.Loop) func(now time.Duration) {
	next, seq, last := time.Duration(0), uint64(0), time.Duration(0)
	return func(now time.Duration) {
		interval := l.Targets[1].Interval()
		if interval < last { // the rate was raised at once, since the last call
			next = min(next, now-live.Refresh)
		}
		last = interval
		b := timeline.Batch{Source: 1, FirstSeq: seq}
		for ; next+time.Millisecond <= now; next += interval {
			q := timeline.Request{Target: 1, Seq: seq, Due: next, Sent: next, Done: next + time.Millisecond}
			if w.fails(next) {
				q.Class = timeline.Refused
			}
			b.Requests = append(b.Requests, q)
			seq++
		}
		b.Watermarks = []timeline.Watermark{{Target: 1, Due: next}}
		l.Queue.Put(b)
	}
}

// at puts an event into the measurement at an instant of its clock.
func (w *week) at(when time.Duration, e timeline.Event) {
	time.Sleep(when - w.loop.Clock.Now()) // of virtual time
	e.Seen = w.loop.Clock.Now()
	w.loop.Queue.Put(e)
}

// rollsOut replaces the nth Pod by the next.
func (w *week) rollsOut(n int) {
	pod := func(n int) timeline.Object {
		name := fmt.Sprint("web-", n)
		return timeline.Object{Kind: "Pod", Namespace: "shop", Name: name, UID: name, Node: fmt.Sprint("node", n%3)}
	}
	endpoint := func(n int, from, to string) timeline.Event {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
		return timeline.Event{
			Kind: timeline.EndpointChanged, Object: pod(n), Service: "shop/web", Addr: addr, Port: 80, From: from, To: to,
		}
	}
	begins := time.Duration(n) * rolloutEvery
	owner := fmt.Sprint("ReplicaSet/web-", n+1)
	w.at(begins, timeline.Event{
		Kind: timeline.PodSeen, To: "Pending", Detail: "watched", Object: pod(n + 1), Owner: owner, Template: owner,
	})
	w.at(begins, timeline.Event{
		Kind: timeline.SnapshotTaken, To: timeline.SnapshotCreated, Detail: "Pod template",
		Object: timeline.Object{Kind: "ReplicaSet", Namespace: "shop", Name: owner, UID: owner},
		Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: owner, Containers: []timeline.Container{{
			Name: "web", PreStop: &timeline.Hook{Kind: "exec", Command: strings.Repeat(owner, 2000)},
		}}}},
	})
	w.at(begins+2*time.Second, endpoint(n+1, timeline.EndpointAbsent, timeline.EndpointReady))
	w.at(begins+2*time.Second, timeline.Event{Kind: timeline.PodReady, To: "true", Object: pod(n + 1)})
	w.at(begins+3*time.Second, endpoint(n, timeline.EndpointReady, timeline.EndpointAbsent))
	w.at(begins+4*time.Second, timeline.Event{Kind: timeline.PodGone, Object: pod(n)})
}

// heap returns how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// size returns how much the runs of a directory take.
func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == dir {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Days of rollouts, 40 a day: each has one run, and there is no other. Memory, what is on disk and in the ConfigMap
// stay as they are.
func TestDaysOfRollouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &week{past: newPast()}
		f := newFakeWith(t, filepath.Join(t.TempDir(), "runs"), func(c *Config) {
			c.Settings.Limits = store.Limits{Bytes: keepSize}
			c.measure, c.Log, c.Reread = w.measure, slog.New(slog.DiscardHandler), nil
			c.write = func(_ context.Context, _ time.Time, all ...events.Event) ([]string, error) {
				w.events += len(all)
				return nil, nil
			}
			c.Past = &configmap.Map{ConfigMaps: kubetest.Client(w).ConfigMaps("lapse"), Name: "lapse-guard-history", Log: c.Log}
		})
		f.guards("shop/web")
		began := w.loop.Clock.T0()
		const perDay = int(24 * time.Hour / rolloutEvery)
		var first int64
		for n := 1; n <= *days*perDay; n++ {
			w.rollsOut(n)
			time.Sleep(rolloutEvery / 2) // of virtual time
			synctest.Wait()
			w.ClearActions()
			if s := f.status("shop/web"); s.Runs != n || s.State != coordinator.Idle {
				t.Fatalf("%d runs of %d rollouts, now %s", s.Runs, n, s.State)
			}
			if bytes := size(t, f.dir); bytes > keepSize {
				t.Fatalf("after %d rollouts %d bytes are on disk, of %d", n, bytes, keepSize)
			}
			if n == perDay {
				first = heap()
			}
		}
		if more := heap() - first; more > 1<<20 {
			t.Errorf("after %d days the heap has %d bytes more than the %d after one", *days, more, first)
		}
		if kept := len(saved.Runs(f.dir)); kept == *days*perDay {
			t.Errorf("all %d runs are on disk", kept)
		}
		if w.events != *days*perDay {
			t.Errorf("%d Events of %d rollouts", w.events, *days*perDay)
		}
		f.knowsEach(began, *days*perDay)
		object, err := w.CoreV1().ConfigMaps("lapse").Get(t.Context(), "lapse-guard-history", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bytes, lines := 0, strings.Count(object.Data["history.ndjson"], "\n")
		for _, text := range object.Data {
			bytes += len(text)
		}
		if lines != min(*days*perDay, configmap.MostRuns) || bytes > 512<<10 {
			t.Errorf("the ConfigMap has %d runs in %d bytes", lines, bytes)
		}
	})
}

// knowsEach checks that the history has each rollout once, and nothing else.
func (f *fake) knowsEach(began time.Time, rollouts int) {
	f.t.Helper()
	lines, err := f.store.History()
	if err != nil || len(lines) != rollouts {
		f.t.Fatalf("%d lines of %d rollouts, %v", len(lines), rollouts, err)
	}
	for i, l := range lines {
		n := i + 1
		at := began.Add(time.Duration(n) * rolloutEvery)
		want := model.Pass
		if n%3 == 0 {
			want = model.Fail
		}
		if at.Before(l.T0) || at.After(l.T0.Add(l.Duration)) || l.Verdict != want || l.Coverage != 1 {
			f.t.Errorf("rollout %d at %v: run %s from %v for %v, %s with coverage %v",
				n, at, l.Run, l.T0, l.Duration, l.Verdict, l.Coverage)
		}
	}
}
