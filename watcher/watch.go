package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/internal/kube"
	"lapse/timeline"
)

// backoff returns the pauses between attempts after the first repetition, which has none.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: math.MaxInt}
}

// watchFor is how long the API server is asked to keep a watch open. It is long because each new watch is a gap: it
// loses no changes, but changes are seen late.
const watchFor = 24 * time.Hour

// An object is an object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// A source lists and watches the objects of one kind.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// from returns the client's objects as a source.
func from[T any, L runtime.Object](objects kube.Objects[T, L]) source {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) }
	return source{list, objects.Watch}
}

// A reflector watches one kind of object.
//
// It lists once and then watches. When the watch breaks, it resumes from the version it had reached and misses
// nothing. If the API server no longer has that version (410 Gone), it lists again: objects that are missing from the
// list are gone, but it is not known when, nor what else happened. Both are a [timeline.WatchGap].
//
// client-go's Reflector does not say that a watch broke. Here a fact must say from when to when changes may have been
// missed.
type reflector[T object] struct {
	kind     string // as people name it: Pod
	resource string // as rights name it: pods
	source
	served   func(context.Context) (bool, error) // reports whether the API server has the kind; nil: it has
	options  metav1.ListOptions                  // select the objects to ask for
	wanted   func(T) bool                        // selects among these; nil: all
	services []string                            // NAMESPACE/NAME of the Services it concerns; empty: all
	in       string                              // its namespace; empty for a kind without one

	// change returns the events for a change from old to new; either may be nil.
	change func(old, new T, how origin) []timeline.Event
	// keep, if not nil, returns what is kept of an object after its change was handled. It may not change the object:
	// others may have it, too.
	keep func(T) T
	// flush, if not nil, returns further events after each watched change, and once after a list.
	flush func(how origin) []timeline.Event
	w     *watcher

	known    map[types.UID]T
	version  string         // to watch from; empty: list first
	state    string         // of the lane, as it was recorded: on, off, or empty
	begun    bool           // the objects were listed once, since [reflector.restart]
	allowed  bool           // it was open once: there was a right to it
	proof    time.Duration  // when it was last certain that nothing is missing
	broken   error          // why the watch broke; nil while it is open
	brokeAt  time.Duration  // when it did
	received bool           // the watch brought something since it was opened
	absent   bool           // the API server does not have the kind
	retry    wait.DelayFunc // the pause after the next failure; nil: none
}

// origin says how a change became known.
type origin int

const (
	watched  origin = iota // the watch brought it
	listed                 // the first list has it: it is no change
	relisted               // a later list differs: it happened in a gap
)

// restart makes a reflector that is not running begin with a list again. It keeps the known objects.
func (r *reflector[T]) restart() { r.version, r.state, r.begun, r.broken = "", "", false, nil }

// lostAfter is how long a right must be missing that was there before, until its lane is off. An API server that has
// just started refuses for a moment what it soon allows.
const lostAfter = 10 * time.Second

// run watches until ctx ends, and then returns nil. It returns an error only if a right is missing before the watch was
// ever open; it can run again. A right that is lost later may come back; it leaves a gap. So does a watch that is still
// broken at the end.
func (r *reflector[T]) run(ctx context.Context) error {
	err := wait.DelayFunc(r.pause).Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		err = r.once(ctx)
		_, denied := errors.AsType[*forbiddenError](err)
		switch {
		case denied && !r.allowed:
			if r.broken = err; r.state != "off" {
				r.proof = cmp.Or(r.proof, r.w.now())
			}
			return false, err
		case denied && (!r.begun || r.broken == nil || r.w.now()-r.brokeAt >= lostAfter):
			// nothing was watched since the list, if there was one, or for a while
			r.is(r.w.now(), "off", err.Error())
		}
		if ctx.Err() == nil && !r.absent {
			r.log(err)
		}
		return false, nil
	})
	if ctx.Err() == nil {
		return err
	}
	if r.broken != nil && r.state == "on" {
		r.gap(r.w.now(), notResumed)
	}
	return nil
}

// servedAgain is after how long the API server is asked again for a kind that it did not have.
const servedAgain = 10 * time.Minute

// pause returns how long to wait before the next attempt.
func (r *reflector[T]) pause() time.Duration {
	if r.absent {
		return servedAgain
	}
	if r.received || r.retry == nil {
		r.retry = backoff().DelayFunc()
		return 0
	}
	return r.retry()
}

// log warns that the watch broke. It logs further failures, which have the same cause, at debug level.
func (r *reflector[T]) log(err error) {
	if r.broken == nil {
		r.brokeAt = r.w.now()
		r.w.log.Warn("a watch broke", "kind", r.kind, "error", err)
	} else {
		r.w.log.Debug("a watch is still broken", "kind", r.kind, "error", err)
	}
	r.broken = err
}

// once lists if necessary, and watches until the watch breaks. It returns why.
func (r *reflector[T]) once(ctx context.Context) error {
	r.received = false
	if r.version == "" {
		if err := r.find(ctx); err != nil || r.absent {
			return err
		}
		if err := r.relist(ctx); err != nil {
			return err
		}
	}
	return r.follow(ctx)
}

// find notes whether the API server has the kind. It records the lane as off if it had it before.
func (r *reflector[T]) find(ctx context.Context) error {
	if r.served == nil {
		return nil
	}
	is, err := r.served(ctx)
	if err != nil {
		return r.failed("find", err)
	}
	if r.absent = !is; r.absent && r.begun {
		r.restart()
		r.is(r.w.now(), "off", "the API server does not serve it any more")
	}
	return nil
}

// Details of gaps.
const (
	resumed        = "the watch broke and was resumed: changes in between arrived late"
	couldNotResume = "the watch could not be resumed: all objects were listed again, " +
		"and changes in between may be missing"
	notResumed = "the watch broke and was not resumed before the end: changes in between are missing"
	wasOff     = "it was not watched, and changes in between are missing"
)

// relist lists the objects, and sets the version to watch from.
func (r *reflector[T]) relist(ctx context.Context) error {
	asked := r.w.now()
	list, err := r.list(ctx, r.options)
	if err != nil {
		return r.failed("list", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return r.failed("list", err)
	}
	version, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return r.failed("list", err)
	}
	now := r.w.now()
	r.w.alive(asked, now)
	how := listed
	switch {
	case r.begun:
		how = relisted
		r.gap(now, couldNotResume)
	case r.state == "off" && r.broken != nil:
		r.gap(now, wasOff)
	}
	r.is(now, "on", "")
	r.compare(items, how, now)
	r.version, r.begun, r.proof, r.broken = version, true, asked, nil
	return nil
}

// compare emits the differences between the known objects and a list, which it knows from then on. After a gap they may
// be as old as what was on its way when that began.
func (r *reflector[T]) compare(items []runtime.Object, how origin, now time.Duration) {
	var none T
	present := map[types.UID]T{}
	for _, item := range items {
		if o, ok := item.(T); ok && r.wants(o) {
			present[o.GetUID()] = o
		}
	}
	for _, old := range slices.SortedFunc(maps.Values(r.known), byName) {
		if _, ok := present[old.GetUID()]; !ok {
			r.w.emit(now, 0, r.change(old, none, how)...)
		}
	}
	for _, item := range items {
		if o, ok := item.(T); ok && r.wants(o) {
			r.w.emit(now, 0, r.change(r.known[o.GetUID()], o, how)...)
			present[o.GetUID()] = r.kept(o)
		}
	}
	r.known = present
	if r.flush != nil {
		r.w.emit(now, 0, r.flush(how)...)
	}
}

// byName orders objects by name and UID, so that the same history always gives the same facts.
func byName[T object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUID(), b.GetUID()))
}

// kept returns what is kept of an object.
func (r *reflector[T]) kept(o T) T {
	if r.keep == nil {
		return o
	}
	return r.keep(o)
}

func (r *reflector[T]) wants(o T) bool { return r.wanted == nil || r.wanted(o) }

// follow watches from the version on until the watch breaks, and returns why.
func (r *reflector[T]) follow(ctx context.Context) error {
	options := r.options
	options.ResourceVersion = r.version
	options.AllowWatchBookmarks = true
	options.TimeoutSeconds = new(int64(watchFor.Seconds()))
	changes, err := r.watch(ctx, options)
	if err != nil {
		return r.failed("watch", err)
	}
	defer changes.Stop()
	if r.broken != nil {
		r.gap(r.w.now(), resumed)
	}
	r.is(r.w.now(), "on", "")
	r.allowed, r.broken = true, nil
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-changes.ResultChan():
			if !ok {
				return errors.New("the API server ended the watch")
			}
			if err := r.take(e, r.w.now()); err != nil {
				return err
			}
		}
	}
}

// take handles one event of a watch, which came at now. An error ends the watch.
func (r *reflector[T]) take(e watch.Event, now time.Duration) error {
	if e.Type == watch.Error {
		return r.failed("watch", apierrors.FromObject(e.Object))
	}
	o, ok := e.Object.(T)
	if !ok {
		return nil
	}
	r.received, r.proof = true, now
	r.w.alive(now, now)
	if version := o.GetResourceVersion(); version != "" {
		r.version = version
	}
	if e.Type == watch.Bookmark {
		return nil
	}
	old, known := r.known[o.GetUID()]
	if !known && !r.wants(o) {
		return nil
	}
	events := r.change(old, o, watched)
	r.known[o.GetUID()] = r.kept(o)
	if e.Type == watch.Deleted || !r.wants(o) { // o was its last state, or the last that is wanted
		var none T
		events = append(events, r.change(o, none, watched)...)
		delete(r.known, o.GetUID())
	}
	if r.flush != nil {
		events = append(events, r.flush(watched)...)
	}
	r.w.emit(now, 0, events...)
	return nil
}

// failed completes an error of the API. If the error is not temporary, the next attempt begins with a list.
func (r *reflector[T]) failed(verb string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return missingRight(verb, r.resource, r.in, err)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !temporary(status.Status().Code) {
		r.version = ""
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken.Err // verb and resource say more than the URL
	}
	return fmt.Errorf("%s %s: %w", verb, r.resource, err)
}

// temporary reports whether an HTTP status stands for a temporary failure. client-go reports a connection lost in the
// middle of a watch as 500.
func temporary(code int32) bool { return code == http.StatusTooManyRequests || code >= 500 }

func (r *reflector[T]) gap(now time.Duration, detail string) {
	if r.broken != nil {
		detail += ": " + r.broken.Error()
	}
	r.w.emit(now, r.proof, timeline.Event{
		Kind:     timeline.WatchGap,
		Object:   timeline.Object{Kind: r.kind},
		Services: r.services,
		Writer:   writer,
		Detail:   detail,
	})
}

// is records that the lane is on or off, and why, unless it was so before.
func (r *reflector[T]) is(now time.Duration, state, why string) {
	if r.state == state {
		return
	}
	if r.state = state; state == "off" {
		r.w.log.Warn("not watched", "kind", r.kind, "why", why)
	}
	r.w.emit(now, 0, laneIs(r.kind, r.services, state, why))
}

func laneIs(kind string, services []string, state, why string) timeline.Event {
	return timeline.Event{
		Kind:     timeline.WatchLane,
		To:       state,
		Object:   timeline.Object{Kind: kind},
		Services: services,
		Writer:   writer,
		Detail:   why,
	}
}
