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

	"lapse/timeline"
)

// What broke is tried again at once, and then after pauses that double from the first to the longest.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: math.MaxInt}
}

// watchFor is how long the API server is asked to keep a watch open. It is long because a watch that is opened anew
// is a gap: changes are not lost by it, but are learned late.
const watchFor = 24 * time.Hour

// An object is anything the API server keeps.
type object interface {
	runtime.Object
	metav1.Object
}

// A reflector watches one kind of object.
//
// It lists once and then watches. When the watch breaks, it is taken up again from the version it had reached, and
// nothing is missed. Only where the API server no longer has that version (410 Gone) is there a new list: then what is
// missing from it went, but when, and what was in between, is not known. Both are a [timeline.WatchGap].
//
// It is not client-go's Reflector: that one takes a broken watch up without a word, and a fact has to say from when to
// when something may have been missed.
type reflector[T object] struct {
	kind     string // as people name it: Pod
	resource string // as rights name it: pods
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	options  metav1.ListOptions // which objects the API server is asked for
	wanted   func(T) bool       // which of these the reflector is about; nil: all
	services []string           // the Services it concerns: NAMESPACE/NAME; empty: every one
	in       string             // its namespace; empty: the objects are in none

	// change gets each object's old and new state; either may be nil. how says how we know.
	change func(old, new T, how origin) []timeline.Event
	// flush, if not nil, is called after each change that was watched, and once after a whole list.
	flush func(how origin) []timeline.Event
	w     *watcher

	known    map[types.UID]T
	version  string         // to watch from; empty: list first
	begun    bool           // the watch was open once
	proof    time.Duration  // when we last knew that we miss nothing
	broken   error          // why the watch broke, until it is open again
	received bool           // the watch brought something since it was opened
	retry    wait.DelayFunc // how long to wait after the next failure; nil: not at all
}

// origin is how a change became known.
type origin int

const (
	watched  origin = iota // it was watched
	listed                 // the first list has it: it is no change
	relisted               // a later list differs: it happened in a gap
)

// anew makes a reflector that is not running begin with a list again. What it knows it keeps.
func (r *reflector[T]) anew() { r.version, r.begun, r.broken = "", false, nil }

// run watches until ctx ends, which is no error. The only other end is that we may not, known before the watch was
// open for the first time; a right lost later may come back, and leaves a gap.
func (r *reflector[T]) run(ctx context.Context) error {
	err := wait.DelayFunc(r.pause).Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		err = r.once(ctx)
		if _, denied := errors.AsType[*forbiddenError](err); denied && !r.begun {
			return false, err
		}
		if ctx.Err() == nil {
			r.log(err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pause is how long to wait before the next attempt.
func (r *reflector[T]) pause() time.Duration {
	if r.received || r.retry == nil {
		r.retry = backoff().DelayFunc()
		return 0
	}
	return r.retry()
}

// log says that the watch broke; what fails after that is the same trouble, and logged at debug level.
func (r *reflector[T]) log(err error) {
	if r.broken == nil {
		r.w.log.Warn("a watch broke", "kind", r.kind, "error", err)
	} else {
		r.w.log.Debug("a watch is still broken", "kind", r.kind, "error", err)
	}
	r.broken = err
}

// once lists if it has to, and watches until the watch breaks. It returns why.
func (r *reflector[T]) once(ctx context.Context) error {
	r.received = false
	if r.version == "" {
		if err := r.relist(ctx); err != nil {
			return err
		}
	}
	return r.follow(ctx)
}

// relist brings known up to date, and sets the version to watch from.
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
	if r.begun {
		r.gap(now, "the watch could not be resumed: all objects were listed anew, and changes in between may be missing")
		r.compare(items, relisted, now)
	} else {
		r.w.emit(now, 0, r.is("on", ""))
		r.compare(items, listed, now)
	}
	r.version, r.proof, r.broken = version, now, nil
	return nil
}

// compare tells of all that differs between what was known and a list, and knows the list from then on.
func (r *reflector[T]) compare(items []runtime.Object, how origin, now time.Duration) {
	var since time.Duration
	if how == relisted {
		since = r.proof
	}
	var none T
	present := map[types.UID]T{}
	for _, item := range items {
		if o, ok := item.(T); ok && r.wants(o) {
			present[o.GetUID()] = o
		}
	}
	for _, old := range slices.SortedFunc(maps.Values(r.known), byName) {
		if _, ok := present[old.GetUID()]; !ok {
			r.w.emit(now, since, r.change(old, none, how)...)
		}
	}
	for _, item := range items {
		if o, ok := item.(T); ok && r.wants(o) {
			r.w.emit(now, since, r.change(r.known[o.GetUID()], o, how)...)
		}
	}
	r.known = present
	if r.flush != nil {
		r.w.emit(now, since, r.flush(how)...)
	}
}

// byName orders objects, so that the same history always gives the same facts. Two of a name differ in their UID.
func byName[T object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUID(), b.GetUID()))
}

func (r *reflector[T]) wants(o T) bool { return r.wanted == nil || r.wanted(o) }

// follow watches from the version on until the watch breaks, and returns what broke it.
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
	if r.broken != nil && r.begun {
		r.gap(r.w.now(), "the watch broke and was resumed: changes in between arrived late")
	}
	r.begun, r.broken = true, nil
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

// take takes in one event of a watch, which came at now. An error ends the watch.
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
	r.known[o.GetUID()] = o
	if e.Type == watch.Deleted || !r.wants(o) { // o was its last state, or the last that the reflector is about
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

// failed completes an error of the API. If it is not one that passes, the version is forgotten: a list puts it right.
func (r *reflector[T]) failed(verb string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return missingRight(verb, r.resource, r.in, err)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !passes(int(status.Status().Code)) {
		r.version = ""
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken.Err // the address says nothing that verb and resource do not
	}
	return fmt.Errorf("%s %s: %w", verb, r.resource, err)
}

// passes reports whether an HTTP status tells of trouble that passes. client-go reports a connection lost in the
// middle of a watch as 500.
func passes(code int) bool { return code == http.StatusTooManyRequests || code >= 500 }

func (r *reflector[T]) gap(now time.Duration, detail string) {
	if r.broken != nil {
		detail += ": " + r.broken.Error()
	}
	r.w.emit(now, r.proof, timeline.Event{
		Kind: timeline.WatchGap, Object: timeline.Object{Kind: r.kind}, Services: r.services, Writer: writer, Detail: detail,
	})
}

func (r *reflector[T]) is(state, why string) timeline.Event {
	return laneIs(r.kind, r.services, state, why)
}

func laneIs(kind string, services []string, state, why string) timeline.Event {
	return timeline.Event{
		Kind: timeline.WatchLane, To: state, Object: timeline.Object{Kind: kind}, Services: services, Writer: writer, Detail: why,
	}
}
