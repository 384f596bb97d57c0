// Package lead elects one of several guards, by a Lease (coordination.k8s.io/v1). All of them measure; the leader
// speaks for them. client-go's leaderelection links the clientset, which doubles the program: see lapse/internal/kube.
//
// A guard that has not renewed the Lease for [renewFor] does not take itself for the leader any more, and another one
// takes over when it has seen no renewal for [expiry], by its own clock. So clocks may differ, and there are not two
// leaders unless the renewal of one was on its way for longer than expiry - renewFor.
//
// One guard is asked to arm a Service, and all of them measure it: the leader tells the others, in an annotation of the
// Lease, which they look at anyway.
package lead

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/kube"
)

const (
	every    = time.Second // between two looks at the Lease, or renewals
	renewFor = 2500 * time.Millisecond
	expiry   = 3 * time.Second

	// patience is for how long a guard leaves a free Lease to others, if it did not measure yet while somebody led: the
	// others may have measured what goes on from its beginning.
	patience = 10 * time.Second
)

// addressAnnotation says where the leader answers.
const addressAnnotation = "lapse/guard-address"

// An Election is one guard's part in an election.
type Election struct {
	Leases  kube.Leases
	Name    string // of the Lease
	Me      string // the name of this guard's Pod
	Address string // where this guard answers others, HOST:PORT
	Log     *slog.Logger

	mu      sync.Mutex
	lease   *coordinationv1.Lease // as it was seen last; nil: never
	changed time.Time             // when another's renewal was seen last
	renewed time.Time             // when this guard's renewal began that succeeded last
	ready   bool                  // it measures
	heir    bool                  // it measured while somebody led
	free    time.Time             // since when nobody holds the Lease; zero: somebody does
	told    bool                  // that it leads
	failed  string                // why the Lease could not be read or written last
	armed   []armed               // requests to arm that are not over, the oldest first
}

// Leads reports whether this guard is the leader now.
func (e *Election) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leads()
}

func (e *Election) leads() bool { return !e.renewed.IsZero() && time.Since(e.renewed) < renewFor }

// Other returns where the leader answers, if another guard is the leader; else "".
func (e *Election) Other() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leads() || e.lease == nil || holder(e.lease) == e.Me || time.Since(e.changed) > expiry {
		return ""
	}
	return e.lease.Annotations[addressAnnotation]
}

// Problem returns why the Lease could not be read or written last; "" if it could.
func (e *Election) Problem() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// Run takes part until ctx ends, and then lets another guard take over at once. It does not lead before it is ready.
func (e *Election) Run(ctx context.Context, ready func() bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, renewFor)
		e.ready = e.ready || ready()
		err := e.round(call)
		cancel()
		e.tell(err)
		select {
		case <-ctx.Done():
			e.resign(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
	}
}

// round looks at the Lease, and renews it or takes it where that is this guard's.
func (e *Election) round(ctx context.Context) error {
	e.mu.Lock()
	mine := e.leads()
	lease := e.lease
	e.mu.Unlock()
	if !mine {
		var err error
		switch lease, err = e.Leases.Get(ctx, e.Name, metav1.GetOptions{}); {
		case apierrors.IsNotFound(err):
			lease = nil
		case err != nil:
			return err
		}
		if !e.mayTake(lease) {
			return nil
		}
	}
	now := time.Now()
	lease, err := e.write(ctx, lease, e.Me)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // another was faster
		e.renewed = time.Time{}
		return nil
	case err != nil:
		return err
	}
	e.lease, e.renewed, e.heir, e.free = lease, now, true, time.Time{}
	return nil
}

// mayTake takes in the Lease, and reports whether this guard may take it.
func (e *Election) mayTake(lease *coordinationv1.Lease) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.changed.IsZero() || lease == nil || e.lease == nil || lease.ResourceVersion != e.lease.ResourceVersion {
		e.changed = now
	}
	e.lease = lease
	e.read(lease)
	other := holder(lease) != "" && holder(lease) != e.Me // else this guard has held it, or the one before in its Pod
	switch {
	case other && now.Sub(e.changed) <= expiry:
		e.free, e.heir = time.Time{}, e.ready
	case e.free.IsZero():
		e.free = now
	}
	switch {
	case !e.ready:
		return false
	case lease == nil: // nobody has led
		return true
	case e.free.IsZero():
		return false
	}
	return e.heir || now.Sub(e.free) >= patience
}

// write makes a guard the holder of the Lease, "" for nobody. It fails with a conflict if the Lease is not as it was.
func (e *Election) write(ctx context.Context, was *coordinationv1.Lease, who string) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	length := int32(expiry / time.Second)
	is := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: e.Name, Annotations: map[string]string{addressAnnotation: e.Address, armedAnnotation: e.text()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &length, RenewTime: &now},
	}
	if was == nil {
		is.Spec.AcquireTime = &now
		return e.Leases.Create(ctx, is, metav1.CreateOptions{})
	}
	is.ResourceVersion = was.ResourceVersion
	if holder(was) != who {
		is.Spec.AcquireTime = &now
		is.Spec.LeaseTransitions = new(transitions(was) + 1)
	}
	patch, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	return e.Leases.Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// resign gives the Lease up, if this guard is the leader.
func (e *Election) resign(ctx context.Context) {
	e.mu.Lock()
	mine, lease := e.leads(), e.lease
	e.renewed = time.Time{}
	e.mu.Unlock()
	if !mine {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := e.write(ctx, lease, ""); err != nil {
		e.Log.Warn("the Lease was not given up: another guard takes over when it has expired", "error", err)
	}
}

// tell logs what has changed.
func (e *Election) tell(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	leads := e.leads()
	if leads != e.told {
		e.Log.Info(map[bool]string{true: "this guard leads", false: "this guard does not lead any more"}[leads])
	}
	e.told = leads
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != "" && e.failed == "" {
		e.Log.Warn("the Lease cannot be read or written", "error", why)
	}
	e.failed = why
}

func holder(l *coordinationv1.Lease) string {
	if l == nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func transitions(l *coordinationv1.Lease) int32 {
	if l.Spec.LeaseTransitions == nil {
		return 0
	}
	return *l.Spec.LeaseTransitions
}
