package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/kube"
)

// A fakeAPI has one Lease, and refuses a change of what is not as it was, as the API server does.
type fakeAPI struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	writes  int
}

// A view is the API as one guard reaches it.
type view struct {
	kube.Leases
	api  *fakeAPI
	away func() bool
}

var resource = coordinationv1.Resource("leases")

func (v view) reach() (unlock func(), err error) {
	if v.away() {
		return nil, errors.New("the API server is away")
	}
	v.api.mu.Lock()
	return v.api.mu.Unlock, nil
}

func (v view) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	unlock, err := v.reach()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if v.api.lease == nil {
		return nil, apierrors.NewNotFound(resource, "lapse-guard")
	}
	return v.api.lease.DeepCopy(), nil
}

func (v view) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	unlock, err := v.reach()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if v.api.lease != nil {
		return nil, apierrors.NewAlreadyExists(resource, "lapse-guard")
	}
	return v.api.keep(l), nil
}

func (v view) Patch(_ context.Context, name string, kind types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*coordinationv1.Lease, error) {
	unlock, err := v.reach()
	if err != nil {
		return nil, err
	}
	defer unlock()
	next := v.api.lease.DeepCopy()
	if err := json.Unmarshal(patch, next); err != nil || kind != types.MergePatchType {
		return nil, errors.Join(err, errors.New("no merge patch"))
	}
	if next.ResourceVersion != v.api.lease.ResourceVersion {
		return nil, apierrors.NewConflict(resource, name, errors.New("it has been modified"))
	}
	return v.api.keep(next), nil
}

func (a *fakeAPI) keep(l *coordinationv1.Lease) *coordinationv1.Lease {
	a.version++
	a.writes++
	a.lease = l.DeepCopy()
	a.lease.ResourceVersion = strconv.Itoa(a.version)
	return a.lease.DeepCopy()
}

func (a *fakeAPI) written() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// A voter is a guard of a test.
type voter struct {
	*Election
	away  atomic.Bool
	ready atomic.Bool
	stop  func()
}

func newVoter(t *testing.T, api *fakeAPI, name string) *voter {
	return newVoterThatIs(t, api, name, true)
}

func newVoterThatIs(t *testing.T, api *fakeAPI, name string, ready bool) *voter {
	v := &voter{}
	v.ready.Store(ready)
	v.Election = &Election{
		Leases: view{api: api, away: v.away.Load},
		Name:   "lapse-guard", Me: name, Address: name + ":7117", Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { v.Run(ctx, v.ready.Load); close(ended) }()
	v.stop = func() { cancel(); <-ended }
	t.Cleanup(v.stop)
	return v
}

// leaders returns the names of the guards that take themselves for the leader.
func leaders(voters ...*voter) (names string) {
	for _, v := range voters {
		if v.Leads() {
			names += v.Me
		}
	}
	return names
}

func TestOneOfSeveralGuardsLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		a := newVoter(t, api, "a")
		synctest.Wait()
		before := api.written()
		b, c := newVoter(t, api, "b"), newVoter(t, api, "c")
		for range 600 {
			synctest.Wait()
			if got := leaders(a, b, c); got != "a" {
				t.Fatalf("%q lead", got)
			}
			if b.Other() != "a:7117" || a.Other() != "" {
				t.Fatalf("b takes %q for the leader, and a %q", b.Other(), a.Other())
			}
			time.Sleep(100 * time.Millisecond) // of virtual time
		}
		if n := api.written() - before; n > 62 {
			t.Errorf("%d writes in a minute", n)
		}
	})
}

// A guard that ends hands over; one that is killed, or does not reach the API server, is followed once its Lease has
// expired, and never are there two leaders.
func TestAnotherGuardTakesOver(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(*voter)
		most time.Duration
	}{
		"it ends":                {func(v *voter) { v.stop() }, every + 100*time.Millisecond},
		"the API server is away": {func(v *voter) { v.away.Store(true) }, expiry + 2*every},
		"it is killed":           {func(v *voter) { v.away.Store(true); v.stop() }, expiry + 2*every},
		"its Lease is deleted":   {func(v *voter) { v.stop(); v.Leases.(view).api.lease = nil }, every + 100*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &fakeAPI{}
				a := newVoter(t, api, "a")
				synctest.Wait()
				b := newVoter(t, api, "b")
				time.Sleep(10*time.Second + 300*time.Millisecond) // of virtual time
				synctest.Wait()
				lost := time.Now()
				test.lose(a)
				for leaders(a, b) != "b" {
					if got := leaders(a, b); len(got) > 1 {
						t.Fatalf("%q lead", got)
					}
					if time.Since(lost) > test.most {
						t.Fatalf("nobody has taken over after %v", time.Since(lost))
					}
					time.Sleep(50 * time.Millisecond) // of virtual time
					synctest.Wait()
				}
				a.away.Store(false)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := leaders(a, b); got != "b" || *api.lease.Spec.HolderIdentity != "b" {
					t.Errorf("later %q lead, and the Lease is held by %s", got, *api.lease.Spec.HolderIdentity)
				}
			})
		})
	}
}

// A guard that was killed and starts again in its Pod has not measured what goes on, though the Lease has its name: the
// one beside it takes over, however soon the other one is ready. If there is none, it leads after a while. One that sees
// no leader says so.
func TestAGuardThatRestartsInItsPodLeavesTheLeaseToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		a := newVoter(t, api, "a")
		synctest.Wait()
		beside := newVoter(t, api, "b")
		time.Sleep(5 * time.Second) // of virtual time
		a.away.Store(true)
		a.stop()
		again := newVoter(t, api, "a")
		for range 100 {
			if synctest.Wait(); again.Leads() {
				t.Fatal("it leads, though another one has measured all along")
			}
			time.Sleep(100 * time.Millisecond) // of virtual time
		}
		if !beside.Leads() {
			t.Error("the one that measures has not taken over")
		}
		beside.stop()
		again.away.Store(true)
		again.stop()
		api.lease.Spec.HolderIdentity = new("a")
		again = newVoter(t, api, "a")
		time.Sleep(patience + every)
		if synctest.Wait(); !again.Leads() {
			t.Error("nobody else is there, and it does not lead")
		}
		b := newVoter(t, api, "b")
		synctest.Wait()
		b.away.Store(true)
		if time.Sleep(expiry + every); b.Other() != "" {
			t.Errorf("it does not reach the API server, and takes %q for the leader", b.Other())
		}
	})
}

// Who takes the place of a guard that ends is the one that measured beside it, and not the Pod that replaces it, however
// soon that is ready. One that does not measure yet never leads.
func TestTheGuardThatMeasuredBesideTheLeaderTakesOver(t *testing.T) {
	for away := time.Duration(0); away < 4*time.Second; away += 300 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{}
			a := newVoter(t, api, "a")
			synctest.Wait()
			b := newVoter(t, api, "b")
			time.Sleep(2*time.Second + away/7) // of virtual time
			b.away.Store(true)
			a.stop()
			c := newVoter(t, api, "c")
			time.Sleep(away)
			b.away.Store(false)
			for range 100 {
				if synctest.Wait(); c.Leads() {
					t.Fatalf("the one that has just begun leads, while the other one was away for %v", away)
				}
				time.Sleep(100 * time.Millisecond) // of virtual time
			}
			if got := leaders(b, c); got != "b" {
				t.Errorf("%q lead", got)
			}
			b.stop()
			c.stop()
			d := newVoterThatIs(t, api, "d", false)
			time.Sleep(time.Minute)
			if synctest.Wait(); d.Leads() {
				t.Error("it does not measure, and leads")
			}
			d.ready.Store(true)
			time.Sleep(2 * every)
			if synctest.Wait(); !d.Leads() {
				t.Error("it measures, nobody else does, and it does not lead")
			}
		})
	}
}

// The guard that leads tells the other one within two seconds which Services it was asked to arm, once each, and until
// when. So does the next one that leads; who was asked is not told.
func TestTheOtherGuardHearsWhatToArm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		a := newVoter(t, api, "a")
		synctest.Wait()
		b := newVoter(t, api, "b")
		time.Sleep(5*time.Second + 300*time.Millisecond) // of virtual time
		r := Request{Service: "shop/web", Why: "armed by hand", Until: time.Now().UTC().Add(time.Minute).Truncate(time.Second)}
		pass := func(v *voter, r Request, want string) {
			t.Helper()
			if got := fmt.Sprint(v.Pass(t.Context(), r)); got != want {
				t.Errorf("%s passes it on: %s, want %s", v.Me, got, want)
			}
		}
		pass(a, r, "<nil>")
		hears := func(v *voter, want ...Request) {
			t.Helper()
			time.Sleep(2 * every)
			synctest.Wait()
			if got := v.Passed(); !slices.Equal(got, want) {
				t.Errorf("%s hears %v, want %v", v.Me, got, want)
			}
		}
		hears(b, r)
		hears(a)
		a.away.Store(true)
		pass(a, Request{Service: "shop/lost", Until: time.Now().Add(time.Second)}, "the API server is away")
		time.Sleep(expiry)
		if got := leaders(a, b); got != "b" {
			t.Fatalf("%q lead", got)
		}
		a.away.Store(false)
		hears(a)
		hears(newVoter(t, api, "c"), r)
		hears(b, r)
		pass(a, Request{Service: "shop/lost", Until: time.Now().Add(time.Second)}, "this guard does not lead")
		other := Request{Service: "shop/api", Why: "Flagger rolls out shop/api", Until: r.Until.Add(time.Minute)}
		pass(b, other, "<nil>")
		hears(a, other)
		time.Sleep(time.Until(r.Until))
		hears(b)
		time.Sleep(time.Minute)
		hears(a)
		if got := api.lease.Annotations[armedAnnotation]; got != "[]" {
			t.Errorf("the Lease still has %s", got)
		}
	})
}

// The annotation is bounded, with the newest requests. What no guard has written there is not taken for one.
func TestWhatTheLeaseTellsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		a := newVoter(t, api, "a")
		until := time.Now().Add(time.Hour)
		for i := range 1000 {
			r := Request{Service: "shop/web-" + strconv.Itoa(i), Why: strings.Repeat("x", i%200), Until: until}
			a.mu.Lock()
			a.keep(armed{r, true})
			a.mu.Unlock()
		}
		time.Sleep(every + time.Millisecond) // of virtual time
		synctest.Wait()
		text := api.lease.Annotations[armedAnnotation]
		if len(text) > mostBytes || len(text) < mostBytes/2 || !strings.Contains(text, "shop/web-999") {
			t.Errorf("%d bytes: %.500s", len(text), text)
		}
		if len(a.armed) > mostKept {
			t.Errorf("%d requests are kept", len(a.armed))
		}
		for _, bad := range []string{"", "{", `{"service":"shop/web"}`, `[{"until":1}]`, strings.Repeat(" ", mostBytes) + text,
			`[{"service":"shop/web","until":"2000-01-01T00:00:00Z","why":"it is over"}]`} {
			var e Election
			e.read(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{armedAnnotation: bad}}})
			if got := e.Passed(); got != nil {
				t.Errorf("%.50q: %v", bad, got)
			}
		}
	})
}
