package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/verdict"
	"lapse/internal/guard/events"
	"lapse/internal/guard/gate"
	"lapse/internal/hint"
	"lapse/internal/history"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
	"lapse/internal/run/signs"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// A fake is a guard whose Services are those of a test, and whose measurements are made up. It lives in a synctest
// bubble.
type fake struct {
	*guard
	t      *testing.T
	dir    string
	log    *bytes.Buffer // of the guard; it may be read while that sleeps
	marked chan []watcher.Marked
	ended  chan error
	cancel func()

	told    []events.Event
	untold  error    // why no Event is written
	others  []string // that have written Events
	telling func(context.Context)

	measured sync.Mutex
	refused  map[string]error // why a Service cannot be measured, by NAMESPACE/NAME
	silent   time.Duration    // for so long a disruption is not measured
	on       map[string]coordinator.Keeper
	began    map[string]int // measurements
	tried    int            // how often one was to begin
	rate     map[string]float64
	baseline map[string]time.Duration
	settings *Settings  // that are read
	breaks   chan error // ends a measurement
	wrong    error      // with them
	why      error      // why the last measurement has ended
	during   func()     // called while a run is judged that goes on: at first, and after failsFor
}

// settings returns those of a guard that measures at a rate. A Service can have one of its own.
func settings(rate float64) *Settings {
	return &Settings{Options: func(m watcher.Marked) (*spec.Options, error) {
		o := &spec.Options{Spec: spec.Spec{Targets: []string{m.Key()}, Rate: rate}}
		switch m.Annotations["path"] {
		case "bad":
			return nil, errors.New("annotation lapse/path is bad")
		case "own":
			o.Rate = 5
		}
		return o, nil
	}}
}

// newFake returns a guard that keeps its runs in dir, and stops it at the end of the test.
func newFake(t *testing.T, dir string) *fake { return newFakeOf(t, dir, nil) }

// newFakeOf is newFake for one of several guards.
func newFakeOf(t *testing.T, dir string, leader Leader) *fake {
	return newFakeWith(t, dir, func(c *Config) { c.Leader = leader })
}

// newFakeWith is newFake with another configuration.
func newFakeWith(t *testing.T, dir string, change func(*Config)) *fake {
	f := &fake{
		t: t, dir: dir, marked: make(chan []watcher.Marked), refused: map[string]error{},
		on: map[string]coordinator.Keeper{}, began: map[string]int{}, rate: map[string]float64{}, baseline: map[string]time.Duration{}, breaks: make(chan error), log: &bytes.Buffer{}, ended: make(chan error, 1),
	}
	c := Config{
		Out: dir, Log: slog.New(slog.NewTextHandler(f.log, nil)),
		Settings: settings(0),
		Reread: func() (*Settings, error) {
			f.measured.Lock()
			defer f.measured.Unlock()
			defer func() { f.settings = nil }()
			return f.settings, f.wrong
		},
		measure: f.measure, follow: f.follow, write: f.tell,
	}
	change(&c)
	var err error
	if f.guard, err = newGuard(c); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	go func() { f.ended <- f.guard.guard(ctx) }()
	t.Cleanup(f.stop)
	return f
}

func (f *fake) stop() {
	if f.cancel(); f.ended != nil {
		if err := <-f.ended; err != nil {
			f.t.Error(err)
		}
	}
	f.ended = nil
	f.store.Close()
}

func (f *fake) follow(ctx context.Context, changed func([]watcher.Marked)) error {
	for {
		select {
		case m := <-f.marked:
			changed(m)
		case <-ctx.Done():
			return nil
		}
	}
}

// measure is idle after a second, until ctx ends.
func (f *fake) measure(ctx context.Context, o *spec.Options, k coordinator.Keeper, _ *slog.Logger) error {
	name := o.Targets[0]
	time.Sleep(time.Second) // of virtual time: the baseline
	f.measured.Lock()
	f.tried++
	err := f.refused[name]
	if err == nil {
		f.began[name]++
		f.on[name], f.rate[name], f.baseline[name] = k, o.Rate, o.Baseline
	}
	f.measured.Unlock()
	if err != nil {
		return err
	}
	k.Armable(func(_ context.Context, why string, length time.Duration) error {
		k.Stands(coordinator.Raised, fmt.Sprint(why, " for ", length))
		return nil
	})
	k.Stands(coordinator.Idle, "")
	select {
	case <-ctx.Done():
	case err = <-f.breaks:
	}
	f.measured.Lock()
	defer f.measured.Unlock()
	f.why = context.Cause(ctx)
	delete(f.on, name)
	return err
}

func (f *fake) tell(ctx context.Context, _ time.Time, all ...events.Event) ([]string, error) {
	if f.telling != nil {
		f.telling(ctx)
	}
	f.measured.Lock()
	defer f.measured.Unlock()
	if f.untold == nil {
		f.told = append(f.told, all...)
	}
	return f.others, f.untold
}

// refuse says why a Service cannot be measured from now on; nil: it can.
func (f *fake) refuse(name string, why error) {
	f.measured.Lock()
	defer f.measured.Unlock()
	f.refused[name] = why
}

// rereads waits until the guard has read settings, or what is wrong with them.
func (f *fake) rereads(s *Settings, wrong error) {
	f.measured.Lock()
	f.settings, f.wrong = s, wrong
	f.measured.Unlock()
	time.Sleep(2*rereadEvery + 2*time.Second) // of virtual time
	synctest.Wait()
}

// guards tells the guard which Services are annotated, and how, and waits until it measures them.
func (f *fake) guards(services ...string) {
	f.marks(services...)
	f.settles()
}

// marks tells the guard which Services are annotated, and how.
func (f *fake) marks(services ...string) {
	var all []watcher.Marked
	for _, s := range services {
		s, path, _ := strings.Cut(s, " ")
		namespace, name, _ := strings.Cut(s, "/")
		m := watcher.Marked{Namespace: namespace, Name: name, Annotations: map[string]string{Annotation: "on"}}
		if path != "" {
			m.Annotations["path"] = path
		}
		all = append(all, m)
	}
	f.marked <- all
}

// settles waits until the guard has done what the marks say.
func (f *fake) settles() {
	time.Sleep(2 * time.Second) // of virtual time
	synctest.Wait()
}

// disrupt begins a run of a Service, whose end the returned function makes: a Pod of template 5f9dd68475 replaces
// another on node1, which is cordoned, and failed requests fail.
func (f *fake) disrupt(service string, failed int) (end func()) {
	f.t.Helper()
	k, ok := f.on[service]
	if !ok {
		f.t.Fatalf("%s is not measured", service)
	}
	namespace, name, _ := strings.Cut(service, "/")
	k.Most(2, true)
	k.Stands(coordinator.Recording, "first sign: node node1 was cordoned")
	const before, length = 20 * time.Second, 90 * time.Second
	meta := timeline.Meta{
		Spec: fmt.Appendf(nil, `{"rate":%v}`, f.rate[service]),
		T0:   time.Now().Add(-before), Services: []timeline.Service{{Namespace: namespace, Name: name, UID: "uid-of-" + name}},
		Options: timeline.Options{Rate: 10, Timeout: time.Second, Baseline: before, Settle: time.Minute, Join: time.Second, Gates: []string{"failed>0"}},
	}
	gateOf, err := verdict.ParseGate("failed>0")
	if err != nil {
		f.t.Fatal(err)
	}
	rec := k.Begin(&meta)
	run := live.New([]verdict.Gate{gateOf}, rec)
	old := timeline.Object{Kind: "Pod", Namespace: namespace, Name: "old", UID: "old", Node: "node1"}
	young := timeline.Object{Kind: "Pod", Namespace: namespace, Name: "new", UID: "new", Node: "node2"}
	for i, fact := range []timeline.Fact{
		meta, timeline.Source{ID: 1, Name: "here", T0: meta.T0},
		timeline.Target{ID: 1, Source: 1, Name: "web new", Kind: timeline.New, URL: "http://web", Service: service, Rate: 10},
		timeline.PhaseChange(0, "", timeline.PhaseBaseline, ""),
		timeline.Event{Kind: timeline.PodSeen, To: "Running", Detail: "listed", Object: old, Owner: "ReplicaSet/web-54cf597767"},
		timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Object: old, Service: service, Addr: netip.MustParseAddr("10.0.0.1"), Port: 80},
		timeline.PhaseChange(before, timeline.PhaseBaseline, timeline.PhaseMeasuring, ""),
		timeline.Event{Seen: before, Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: timeline.Object{Kind: "Node", Name: "node1", UID: "n1", Node: "node1"}},
		timeline.Event{Seen: before + time.Second, Kind: timeline.EndpointChanged, From: timeline.EndpointReady, To: timeline.EndpointNotReady, Object: old, Service: service, Addr: netip.MustParseAddr("10.0.0.1"), Port: 80},
		timeline.Event{Seen: before + time.Second, Kind: timeline.PodSeen, To: "Pending", Detail: "watched", Object: young, Owner: "ReplicaSet/web-5f9dd68475"},
	} {
		if e, ok := fact.(timeline.Event); ok {
			e.ID, e.Source = uint32(i), 1
			fact = e
		}
		run.Add(fact)
	}
	if rec != nil {
		rec.FlushDue(before)
	}
	for _, target := range []timeline.Fact{meta, timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, Service: service, Rate: 10}} {
		k.Fact(target)
	}
	return func() {
		time.Sleep(length - before) // of virtual time
		b := timeline.Batch{Source: 1}
		for due := time.Duration(0); due < length; due += 100 * time.Millisecond {
			if due >= before && due < before+f.silent {
				continue
			}
			q := timeline.Request{Target: 1, Seq: uint64(len(b.Requests)), Due: due, Sent: due, Done: due + time.Millisecond}
			if due >= before && failed > 0 {
				q.Class = timeline.Refused
				failed--
			}
			b.Requests = append(b.Requests, q)
		}
		b.Watermarks = []timeline.Watermark{{Target: 1, Due: length}}
		run.Add(b)
		k.Fact(b)
		k.Judged(run.Timeline())
		if f.during != nil {
			f.during()
			time.Sleep(failsFor) // of virtual time
			k.Judged(run.Timeline())
			f.during()
		}
		over := timeline.PhaseChange(length, timeline.PhaseMeasuring, timeline.PhaseEnded, "")
		over.ID, over.Source = 100, 1
		run.Add(over)
		k.Ended(run.Last())
		k.Most(2, false)
		k.Stands(coordinator.Idle, "")
		synctest.Wait()
	}
}

// ask returns the status and the answer of the gate.
func (f *fake) ask(query string) (int, gate.Answer) {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, gate.Path+"?"+query, nil))
	var a gate.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		f.t.Fatalf("%q: %v", w.Body, err)
	}
	return w.Code, a
}

func (f *fake) asked(query string, status int, state gate.State) gate.Answer {
	f.t.Helper()
	code, a := f.ask(query)
	if code != status || a.State != state {
		f.t.Errorf("%s: %d %+v, want %d %s", query, code, a, status, state)
	}
	return a
}

// status returns how a Service stands; its zero value if it is not guarded.
func (f *fake) status(service string) Status {
	for _, s := range f.report().Services {
		if s.Service == service {
			return s
		}
	}
	return Status{}
}

// What does not answer as it should is seldom tried: each attempt lists what it watches. What may soon be there is tried
// often.
func TestWhatCannotBeMeasuredIsSeldomTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.refuse("shop/web", errors.New("it has no ready endpoint"))
		f.guards("shop/web")
		inAnHour := func() int {
			f.measured.Lock()
			before := f.tried
			f.measured.Unlock()
			time.Sleep(time.Hour) // of virtual time
			synctest.Wait()
			f.measured.Lock()
			defer f.measured.Unlock()
			return f.tried - before
		}
		if n := inAnHour(); n < 100 {
			t.Errorf("it was tried %d times in an hour", n)
		}
		f.refuse("shop/web", &coordinator.UnfitError{Why: "it answers 503"})
		if n := inAnHour(); n < 10 || n > 20 {
			t.Errorf("it was tried %d times in the next hour", n)
		}
		f.refuse("shop/web", nil)
		time.Sleep(mostRetryAfter + 2*time.Second)
		if synctest.Wait(); f.began["shop/web"] != 1 {
			t.Errorf("it is measured %d times", f.began["shop/web"])
		}
	})
}

// A Service that is reached otherwise, or another one of its name, is measured anew.
func TestAServiceThatIsReachedOtherwiseIsMeasuredAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		for i, reached := range []string{"port 80", "port 80", "port 8080"} {
			f.marked <- []watcher.Marked{{
				Namespace: "shop", Name: "web", Reached: reached, Annotations: map[string]string{Annotation: "on"},
			}}
			f.settles()
			if want := 1 + i/2; f.began["shop/web"] != want {
				t.Errorf("with %s it was begun to be measured %d times, not %d", reached, f.began["shop/web"], want)
			}
		}
	})
}

// Time in which nothing was observed does not pass for time without a disruption.
func TestTimeThatNobodyObservedDoesNotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		k := f.on["shop/web"]
		none := func() string {
			return "service=shop/web&none=pass&since=" + time.Now().UTC().Format(time.RFC3339Nano)
		}
		before := none()
		for _, fact := range []timeline.Fact{
			timeline.Meta{}, timeline.Source{ID: 1},
			timeline.Target{ID: 1, Source: 1, Name: "web new", Kind: timeline.New, Service: "shop/web", Rate: 5, Timeout: time.Second},
		} {
			k.Fact(fact)
		}
		observed := func(from, to time.Duration) {
			b := timeline.Batch{Source: 1, Watermarks: []timeline.Watermark{{Target: 1, Due: to}}}
			for due := from; due < to; due += 200 * time.Millisecond {
				b.Requests = append(b.Requests, timeline.Request{Target: 1, Due: due, Sent: due, Done: due + time.Millisecond})
			}
			time.Sleep(to - from) // of virtual time
			k.Fact(b)
		}
		observed(0, 10*time.Second)
		f.asked(before, 200, gate.Pass)
		k.Fact(timeline.Batch{Source: 1, Watermarks: []timeline.Watermark{{Target: 1, Due: 30 * time.Second}}})
		f.asked(before, 200, gate.Inconclusive)
		observed(30*time.Second, 40*time.Second)
		after := none()
		observed(40*time.Second, 50*time.Second)
		f.asked(before, 200, gate.Inconclusive)
		f.asked(after, 200, gate.Pass)
	})
}

// Neither does time in which the cluster was not watched, if a run that begins then does not reach back so far.
func TestTimeInWhichNobodyWatchedDoesNotPass(t *testing.T) {
	lane := func(kind, to string) timeline.Event {
		return timeline.Event{Kind: timeline.WatchLane, Object: timeline.Object{Kind: kind}, To: to, Detail: "no right to watch them"}
	}
	for name, tt := range map[string]struct {
		events []timeline.Event
		before gate.State // of all since before them
		after  gate.State // of all since then
	}{
		"for long":            {[]timeline.Event{gap("Pod", 0, 5*time.Minute).Event}, gate.Inconclusive, gate.Pass},
		"for a minute":        {[]timeline.Event{gap("Pod", 0, time.Minute).Event}, gate.Pass, gate.Pass},
		"Events only":         {[]timeline.Event{gap("Event", 0, 5*time.Minute).Event, lane("Event", "off")}, gate.Pass, gate.Pass},
		"a right was lost":    {[]timeline.Event{lane("EndpointSlice", "off")}, gate.Inconclusive, gate.Inconclusive},
		"and is there again":  {[]timeline.Event{lane("EndpointSlice", "off"), lane("EndpointSlice", "on")}, gate.Inconclusive, gate.Pass},
		"it was always there": {[]timeline.Event{lane("EndpointSlice", "on")}, gate.Pass, gate.Pass},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, t.TempDir())
				f.guards("shop/web")
				since := func() string {
					time.Sleep(time.Second) // of virtual time
					return "service=shop/web&none=pass&since=" + time.Now().UTC().Format(time.RFC3339Nano)
				}
				before := since()
				for _, e := range tt.events {
					time.Sleep(time.Minute)
					f.on["shop/web"].Fact(e)
				}
				f.asked(before, 200, tt.before)
				f.asked(since(), 200, tt.after)
			})
		})
	}
}

// What happens while a run goes on is measured by it, also if nobody watches for a while.
func TestTimeInWhichNobodyWatchedIsInARunThatGoesOn(t *testing.T) {
	for began, want := range map[time.Duration]gate.State{3 * time.Minute: gate.Pass, time.Minute: gate.Inconclusive} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, t.TempDir())
			f.guards("shop/web")
			since := time.Now().UTC().Format(time.RFC3339Nano)
			end := f.disrupt("shop/web", 0)
			time.Sleep(began) // of virtual time
			f.on["shop/web"].Fact(gap("Pod", 0, 150*time.Second).Event)
			end()
			f.asked("service=shop/web&since="+since, 200, want)
		})
	}
}

// A version that fails each request does not settle. The gate says before the end that it failed, unless that may still
// turn out to be otherwise, and says so of nothing else.
func TestTheGateDoesNotAwaitTheEndOfWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		asked := 0
		f.during = func() {
			if asked++; asked == 1 {
				f.asked("service=shop/web&hash=5f9dd68475", 425, gate.Pending)
				return
			}
			f.asked("service=shop/web&hash=other", 425, gate.Pending)
			if a := f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail); !strings.HasPrefix(a.Reason, "3 of ") {
				t.Errorf("%+v", a)
			}
		}
		f.disrupt("shop/web", 3)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		f.during = func() { f.asked("service=shop/web&hash=5f9dd68475", 425, gate.Pending) }
		f.disrupt("shop/web", 0)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Pass)
		if asked != 2 {
			t.Errorf("%d questions", asked)
		}
	})
}

// A Service that somebody annotates is measured until nobody wants it any more. Each disruption has one run, a line of
// history, and the gate's answer, which the guard's successor gives as well.
func TestADisruptionIsMeasuredKeptAndAnsweredFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "runs")
		f := newFake(t, dir)
		f.asked("service=shop/web&node=node1", 425, gate.Pending) // nor is it known what is guarded
		f.guards("shop/web", "shop/api")
		f.asked("service=shop/other&node=node1", 404, "")
		if s := f.status("shop/web"); s.State != coordinator.Idle || s.Runs != 0 {
			t.Errorf("%+v", s)
		}
		f.asked("service=shop/web&node=node1", 425, gate.Pending)
		end := f.disrupt("shop/web", 0)
		began := f.asked("service=shop/web&node=node1", 425, gate.Pending)
		if s := f.status("shop/web"); s.State != coordinator.Recording || s.Run != began.Run || s.Sign != "first sign: node node1 was cordoned" {
			t.Errorf("%+v, of run %s", s, began.Run)
		}
		end()
		passed := f.asked("service=shop/web&node=node1", 200, gate.Pass)
		if passed.Run != began.Run || passed.Reason != "0 of 900 failed" {
			t.Errorf("%+v", passed)
		}
		f.disrupt("shop/web", 3)()
		failed := f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		if failed.Run == passed.Run || !strings.HasPrefix(failed.Reason, "3 of 900 failed; down ") {
			t.Errorf("%+v", failed)
		}
		f.asked("service=shop/web&hash=54cf597767", 425, gate.Pending)
		f.asked("service=shop/web&run="+passed.Run, 200, gate.Pass)
		f.asked("service=shop/web&since="+passed.Since.Format(time.RFC3339), 200, gate.Fail)
		f.asked("service=shop/api&node=node1", 425, gate.Pending)
		if s := f.status("shop/web"); s.State != coordinator.Idle || s.Runs != 2 || s.Last.Run != failed.Run {
			t.Errorf("%+v", s)
		}
		text, _ := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
		if names := saved.Runs(dir); len(names) != 2 || strings.Count(string(text), "\n") != 2 {
			t.Errorf("%q, and the history\n%s", names, text)
		}
		f.stop()

		next := newFake(t, dir)
		next.guards("shop/web")
		next.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		if again := next.asked("service=shop/web&run="+passed.Run, 200, gate.Pass); again != passed {
			t.Errorf("the next guard says %+v, not %+v", again, passed)
		}
		if s := next.status("shop/web"); s.Runs != 2 || s.Last.Run != failed.Run {
			t.Errorf("the next guard's status: %+v", s)
		}
	})
}

// exports reports whether Prometheus is told a line.
func (f *fake) exports(line string) bool {
	w := httptest.NewRecorder()
	f.public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Contains("\n"+w.Body.String(), "\n"+line)
}

// A Service that is deleted is measured until its run has shown that, and not for as long as requests fail. The run of
// one that is created again goes on to its end, and that of one that is only no longer guarded does not.
func TestADeletedServiceIsMeasuredForAWhile(t *testing.T) {
	change := func(from, to string) timeline.Event {
		return timeline.Event{Kind: timeline.ServiceChanged, From: from, To: to}
	}
	deleted, created := change("present", "absent"), change("absent", "present")
	for name, tt := range map[string]struct {
		events []timeline.Event // that its run begins with, just after the Service is no longer guarded
		again  bool             // it is guarded again then
		ends   time.Duration    // when the measurement ends since then; 0: with its run
		why    error
	}{
		"deleted":                   {[]timeline.Event{deleted}, false, mostDeleted, errDeleted},
		"deleted and created again": {[]timeline.Event{deleted, created}, true, 0, nil},
		"created again, unguarded":  {[]timeline.Event{deleted, created}, false, lingers, errUnguarded},
		"no longer guarded":         {[]timeline.Event{change("a=b", "a=c")}, false, lingers, errUnguarded},
		"guarded again":             {[]timeline.Event{change("a=b", "a=c")}, true, 0, nil},
		"nothing happens":           {nil, false, lingers, errUnguarded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, t.TempDir())
				f.guards("shop/web")
				f.marks()
				synctest.Wait()
				k := f.on["shop/web"]
				if tt.events != nil {
					f.disrupt("shop/web", 3)
				}
				for _, e := range tt.events {
					k.Fact(e)
				}
				is := func(measured bool) {
					t.Helper()
					synctest.Wait()
					f.measured.Lock()
					defer f.measured.Unlock()
					if _, on := f.on["shop/web"]; on != measured || !on && !errors.Is(f.why, tt.why) {
						t.Errorf("measured %v, ended by %v", on, f.why)
					}
				}
				if tt.again {
					f.marks("shop/web")
				}
				if tt.ends == 0 {
					time.Sleep(time.Hour) // of virtual time
					is(true)
					return
				}
				time.Sleep(tt.ends - time.Millisecond)
				is(true)
				time.Sleep(time.Millisecond)
				is(false)
			})
		})
	}
}

// Prometheus is told how a Service stands and got through its disruptions, until nobody guards it any more.
func TestPrometheusIsToldOfEachDisruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := newFake(t, dir)
		f.refuse("shop/api", errors.New("it has no ready endpoint"))
		f.guards("shop/web", "shop/api")
		expect := func(f *fake, lines ...string) {
			t.Helper()
			for _, line := range lines {
				if !f.exports(line) {
					t.Errorf("%s is not exported", line)
				}
			}
		}
		expect(f, `lapse_guard_state{service="shop/web",state="idle"} 1`, `lapse_guard_state{service="shop/api",state="not measured"} 1`,
			`lapse_gate_state{service="shop/api",state="inconclusive"} 1`, `lapse_observed_seconds_total{service="shop/api",state="unobserved"} 2`)
		end := f.disrupt("shop/web", 3)
		expect(f, `lapse_guard_state{service="shop/web",state="recording"} 1`, `lapse_gate_state{service="shop/web",state="pending"} 1`)
		end()
		failed := []string{`lapse_disruption_failed_requests{service="shop/web"} 3`, `lapse_gate_state{service="shop/web",state="fail"} 1`}
		expect(f, failed...)
		expect(f, `lapse_requests_total{kind="new",outcome="failed",service="shop/web"} 3`, `lapse_disruptions_total{service="shop/web",trigger="unknown",verdict="fail"} 1`,
			`lapse_store_errors_total 0`)
		f.guards("shop/api")
		if time.Sleep(lingers); f.exports(`lapse_guard_state{service="shop/web"`) || f.exports(`lapse_requests_total{`) {
			t.Error("series of a Service are left that is not guarded")
		}
		f.stop()

		next := newFake(t, dir)
		next.guards("shop/web")
		end = next.disrupt("shop/web", 0)
		expect(next, failed[0])
		if err := os.RemoveAll(dir); err != nil { // as if the disk were full
			t.Fatal(err)
		}
		end()
		expect(next, `lapse_store_errors_total 1`)
	})
}

// Who takes the annotation away in a disruption gets its run.
func TestAServiceIsLeftAfterItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		end := f.disrupt("shop/web", 0)
		f.guards()
		if f.on["shop/web"].Ended == nil {
			t.Fatal("the run was ended")
		}
		end()
		if f.status("shop/web").Service != "" || len(f.on) > 0 || len(saved.Runs(f.dir)) != 1 {
			t.Errorf("%+v, %d measurements, %q", f.report().Services, len(f.on), saved.Runs(f.dir))
		}
		f.asked("service=shop/web&node=node1", 404, "")
	})
}

// What fails for hours has runs of hours. Who changes the annotations or takes them away does not wait for the end of
// one; other settings do.
func TestAServiceThatFailsForHoursIsLeftAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.disrupt("shop/web", 3)
		f.on["shop/web"].Stands(coordinator.Recording, "first sign: "+signs.Lasting+"2026-11-28 09:00")
		f.rereads(settings(50), nil)
		if n := f.began["shop/web"]; n != 1 {
			t.Errorf("other settings have ended the run: it is measured for the %dth time", n)
		}
		f.guards("shop/web /healthz")
		if n, s := f.began["shop/web"], f.status("shop/web"); n != 2 || s.State != coordinator.Idle {
			t.Errorf("another path, which may be what it lacked, does not count: it is measured for the %dth time, %+v", n, s)
		}
		f.disrupt("shop/web", 3)
		f.on["shop/web"].Stands(coordinator.Recording, "first sign: "+signs.Lasting+"2026-11-28 09:00")
		f.guards()
		if len(f.on) > 0 || f.status("shop/web").Service != "" {
			t.Errorf("%+v, %d measurements", f.report().Services, len(f.on))
		}
	})
}

// A version that fails each request is measured for hours after its rollout. The gate says of it what its rollout has
// shown, until something else happens.
func TestWhatFailsForHoursPutsNoAnswerOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		now := time.Now()
		f.gate.Change(func(b *gate.Book) {
			b.End("shop/web", gate.Run{ID: "r1", Began: now, Changed: now, Verdict: gate.Fail, Hashes: []string{"new"},
				Rollout: true, Nodes: []string{"node1"}})
		})
		const q, ofNode, ofOther = "service=shop/web&hash=new", "service=shop/web&node=node1", "service=shop/web&node=node2"
		end := f.disrupt("shop/web", 3)
		f.asked(q, http.StatusTooEarly, gate.Pending)
		f.asked(ofNode, http.StatusTooEarly, gate.Pending)
		k := f.on["shop/web"]
		k.Stands(coordinator.Recording, "first sign: "+signs.Lasting+"2026-11-28 09:00")
		f.asked(q, http.StatusOK, gate.Fail)
		f.asked(ofNode, http.StatusOK, gate.Fail)
		f.asked(ofOther, http.StatusTooEarly, gate.Pending)
		k.Signed(signs.Sign{Class: signs.Now, Name: signs.ARequest})
		k.Signed(signs.Sign{Class: signs.Now, Name: signs.AnEndpoint, Again: true})
		k.Signed(signs.Sign{Class: signs.Planned, Name: "mark"})
		f.asked(q, http.StatusOK, gate.Fail)
		k.Signed(signs.Sign{Class: signs.Soon, Name: "rollout"})
		f.asked(q, http.StatusTooEarly, gate.Pending)
		f.asked(ofNode, http.StatusTooEarly, gate.Pending)
		end()
		f.asked(q, http.StatusOK, gate.Fail)
	})
}

// Who changes how a Service is asked changes the next measurement. What is known of it stays.
func TestAChangedAnnotationCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		f.guards("shop/web")
		if f.began["shop/web"] != 1 {
			t.Errorf("%d measurements without a change", f.began["shop/web"])
		}
		f.guards("shop/web /healthz")
		if f.began["shop/web"] != 2 || f.status("shop/web").State != coordinator.Idle {
			t.Errorf("%d measurements, %+v", f.began["shop/web"], f.status("shop/web"))
		}
		f.asked("service=shop/web&node=node1", 200, gate.Pass)
		end := f.disrupt("shop/web", 0)
		if f.guards("shop/web /other"); f.began["shop/web"] != 2 {
			t.Error("a change cut a run short, or two measurements go on at once")
		}
		end()
		time.Sleep(2 * time.Second) // of virtual time
		if synctest.Wait(); f.began["shop/web"] != 3 {
			t.Errorf("%d measurements", f.began["shop/web"])
		}
		f.guards("shop/web bad")
		if s := f.status("shop/web"); s.State != notMeasured || s.Problem != "annotation lapse/path is bad" {
			t.Errorf("%+v", s)
		}
	})
}

// Other settings wait for the end of a run: until then it is measured as before, and the status shows it.
func TestARunIsMeasuredByTheSettingsItBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAtMost(t, 4000)
		f.guards("shop/web")
		most := func() float64 { return f.on["shop/web"].Most(2, true) }
		end := f.disrupt("shop/web", 3)
		before := f.status("shop/web")
		for _, rate := range []float64{50, 20} {
			slower := atMost(4000)
			slower.Options = func(m watcher.Marked) (*spec.Options, error) {
				o, err := atMost(4000).Options(m)
				o.Rate = rate
				return o, err
			}
			f.rereads(slower, nil)
			if s := f.status("shop/web"); s.Run == "" || s != before || most() != 100 {
				t.Errorf("with settings for %v/s, the run that goes on gets %v/s, and is shown as %+v", rate, most(), s)
			}
		}
		end()
		f.rereads(nil, nil)
		if s := f.status("shop/web"); s.State != coordinator.Idle || most() != 20 {
			t.Errorf("after its end %v/s count, and it is shown as %+v", most(), s)
		}
	})
}

// Other settings count for the Services that they measure in another way, after the runs that go on.
func TestChangedSettingsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web", "shop/own own", "shop/bad bad")
		end := f.disrupt("shop/web", 0)
		f.rereads(settings(50), nil)
		if f.began["shop/own"] != 1 || f.began["shop/web"] != 1 || f.on["shop/web"].Ended == nil {
			t.Errorf("a change disturbed what it does not concern, or a run: %v", f.began)
		}
		end()
		f.rereads(nil, nil)
		if f.began["shop/own"] != 1 || f.began["shop/web"] != 2 || f.rate["shop/web"] != 50 {
			t.Errorf("%v, at %v", f.began, f.rate)
		}
		f.asked("service=shop/web&node=node1", 200, gate.Pass)
		if s := f.status("shop/web"); s.Runs != 1 || s.Last.Verdict != gate.Pass {
			t.Errorf("of the run before, the status has %+v", s)
		}
		f.rereads(settings(50), nil)
		if f.began["shop/web"] != 2 {
			t.Error("settings that are alike disturbed a Service")
		}
	})
}

// Other settings do not keep a Service from being measured whose disruption was announced.
func TestChangedSettingsWaitForWhatIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.on["shop/web"].Stands(coordinator.Raised, "node node1 was cordoned")
		f.rereads(settings(50), nil)
		if n := f.began["shop/web"]; n != 1 {
			t.Errorf("between a cordon and the eviction it began anew: %d times", n)
		}
		f.disrupt("shop/web", 0)()
		f.rereads(nil, nil)
		if n := f.began["shop/web"]; n != 2 {
			t.Errorf("it is measured for the %dth time", n)
		}
	})
}

// Changed limits count from the end of the next run on.
func TestChangedLimitsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		less := settings(0)
		less.Limits.Bytes = 1
		f.rereads(less, nil)
		f.disrupt("shop/web", 0)()
		if runs := saved.Runs(f.dir); len(runs) != 1 {
			t.Errorf("%q are kept", runs)
		}
	})
}

// While a Service begins to be measured anew, the gate knows that it is not measured.
func TestTheGateKnowsThatMeasuringBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		since := time.Now()
		asks := "none=pass&service=shop/web&since=" + since.UTC().Format(time.RFC3339)
		f.asked(asks, 200, gate.Pass)
		f.measured.Lock()
		f.settings = settings(50)
		f.measured.Unlock()
		time.Sleep(rereadEvery - 2*time.Second + 500*time.Millisecond) // of virtual time: in the next baseline
		synctest.Wait()
		f.asked(asks, 200, gate.Inconclusive)
		time.Sleep(2 * time.Second)
		f.asked(asks, 200, gate.Inconclusive)
	})
}

// Settings that are wrong change nothing. That is said once in the log, and in the status until they are mended.
func TestWrongSettingsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		f.rereads(nil, errors.New("--rat is unknown"))
		f.guards("shop/web", "shop/api")
		f.rereads(nil, errors.New("--rat is unknown"))
		if !f.exports("lapse_guard_config_last_reload_successful 0") {
			t.Error("the metric says that the settings are right")
		}
		if f.report().Problem != "--rat is unknown" || f.began["shop/web"] != 1 || f.began["shop/api"] != 1 {
			t.Errorf("%+v, %v", f.report(), f.began)
		}
		if n := strings.Count(f.log.String(), "--rat is unknown"); n != 1 {
			t.Errorf("said %d times:\n%s", n, f.log)
		}
		f.rereads(settings(0), nil)
		if f.report().Problem != "" || f.began["shop/web"] != 1 || !f.exports("lapse_guard_config_last_reload_successful 1") || !strings.Contains(f.log.String(), "is right again") {
			t.Errorf("%+v, %v\n%s", f.report(), f.began, f.log)
		}
	})
}

// A Service that cannot be measured is said to be so, by the gate as well, and tried again.
func TestAServiceThatCannotBeMeasuredIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.refuse("shop/web", hint.Errorf("look at its Pods", "it has no ready endpoint"))
		f.guards("shop/web")
		const problem = "it has no ready endpoint (look at its Pods)"
		if s := f.status("shop/web"); s.State != notMeasured || s.Problem != problem {
			t.Errorf("%+v", s)
		}
		if a := f.asked("service=shop/web&node=node1", 200, gate.Inconclusive); a.Reason != "shop/web is not measured: "+problem {
			t.Errorf("%+v", a)
		}
		time.Sleep(10 * time.Minute) // of virtual time
		if n := strings.Count(f.log.String(), problem); n != 1 {
			t.Errorf("logged %d times:\n%s", n, f.log)
		}
		f.refuse("shop/web", nil)
		time.Sleep(retryAfter + 2*time.Second) // of virtual time
		synctest.Wait()
		if s := f.status("shop/web"); s.State != coordinator.Idle || s.Problem != "" {
			t.Errorf("%+v", s)
		}
		f.asked("service=shop/web&node=node1", 425, gate.Pending)
	})
}

// A right that is missing costs what it is about, and the status says so until it is there.
func TestWhatIsNotWatchedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		says := func() string {
			var text strings.Builder
			if err := Print(&text, f.report()); err != nil {
				t.Error(err)
			}
			return text.String()
		}
		lane := timeline.Event{Kind: timeline.WatchLane, To: "off", Object: timeline.Object{Kind: "Node"}, Detail: "no right to list nodes: you may not"}
		since := time.Now().UTC().Format(time.RFC3339)
		for range 2 { // it is tried again
			f.on["shop/web"].Fact(lane)
			if said := says(); !strings.HasPrefix(said, "changes of kind Node are not seen, nor found as a cause, since "+since+": no right to list nodes: you may not\n") {
				t.Error(said)
			}
			time.Sleep(time.Hour) // of virtual time
		}
		lane.To = "on"
		f.on["shop/web"].Fact(lane)
		if said := says(); strings.Contains(said, "Node") {
			t.Errorf("with the right it says\n%s", said)
		}
	})
}

// What a table of statuses says.
func TestStatusesArePrinted(t *testing.T) {
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	var text strings.Builder
	if err := Print(&text, Report{Problem: "--rat is unknown", Unsaid: "you may not create events", Services: []Status{
		{Service: "shop/api", State: notMeasured, Since: at, Problem: "it has no ready endpoint"},
		{Service: "shop/web", State: coordinator.Idle, Since: at, Runs: 2, Last: Last{Run: "r2", Verdict: gate.Fail, Reason: "3 of 900 failed"}},
	}}); err != nil {
		t.Fatal(err)
	}
	want := `the configuration is wrong, the last good one stays in force: --rat is unknown
Events cannot be written: you may not create events
2 Services: 1 not measured, 1 idle; the last run of 1: fail
SERVICE   STATE         SINCE                 RUNS  LAST  RUN  REASON
shop/api  not measured  2026-11-26T10:00:00Z  0                it has no ready endpoint
shop/web  idle          2026-11-26T10:00:00Z  2     fail  r2   3 of 900 failed
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	text.Reset()
	if err := Print(&text, Report{}); err != nil || !strings.Contains(text.String(), "no Service is guarded") {
		t.Errorf("%v %s", err, &text)
	}
	text.Reset()
	if err := Print(&text, Report{Unlisted: true}); err != nil || text.String() != unlisted+"\n" {
		t.Errorf("%v %s", err, &text)
	}
}

// How long Services were observed is kept by day, over the guard's end: a day on which nobody looked is not healthy.
func TestWhatWasObservedIsKept(t *testing.T) {
	dir := t.TempDir()
	observed := func() (all time.Duration) {
		o, err := saved.ReadObserved(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, services := range o.Days {
			all += services["shop/web"]
		}
		return all
	}
	guarded := func(want time.Duration, during func(f *fake)) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, dir)
			f.guards("shop/web")
			during(f)
			f.stop()
			if got := observed(); (got - want).Abs() > 7*time.Second {
				t.Errorf("%v were observed, want %v", got, want)
			}
		})
	}
	guarded(0, func(*fake) { time.Sleep(10 * time.Minute) }) // of virtual time: nothing is sent
	guarded(90*time.Second, func(f *fake) { f.disrupt("shop/web", 0)(); time.Sleep(10 * time.Minute) })
	guarded(90*time.Second, func(*fake) {})
}

// A Service is guarded over the guard's end, until a guard sees that it is not annotated any more. One that has not seen
// the Services yet has not seen that.
func TestAServiceIsGuardedUntilItIsNotAnnotated(t *testing.T) {
	dir := t.TempDir()
	guards := func(during func(f *fake)) history.Span {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, dir)
			during(f)
			f.stop()
		})
		o, err := saved.ReadObserved(dir)
		if err != nil || len(o.Guarded["shop/web"]) != 1 {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Guarded["shop/web"][0]
	}
	first := guards(func(f *fake) {
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		time.Sleep(2 * time.Minute) // of virtual time
	})
	if first.From.IsZero() || !first.To.IsZero() {
		t.Errorf("while it is guarded: %+v", first)
	}
	if is := guards(func(*fake) { time.Sleep(10 * time.Minute) }); is != first {
		t.Errorf("while the Services are not known: %+v, want %+v", is, first)
	}
	is := guards(func(f *fake) {
		f.marks("shop/other")
		time.Sleep(2 * time.Minute)
	})
	if is.From != first.From || is.To.IsZero() {
		t.Errorf("when it is not annotated: %+v", is)
	}
}

// A guard that may not list Services ends and says so: one that goes on would say that none is guarded.
func TestAGuardThatMayNotListServicesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeWith(t, t.TempDir(), func(c *Config) {
			c.follow = func(context.Context, func([]watcher.Marked)) error { return os.ErrPermission }
		})
		if err := <-f.ended; !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
		f.ended = nil
	})
}
