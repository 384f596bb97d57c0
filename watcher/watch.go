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

// A lane watches one kind of object.
//
// It lists once and then watches. When the watch breaks, it is taken up again from the version it had reached, and
// nothing is missed. Only where the API server no longer has that version (410 Gone) is there a new list: then what is
// missing from it went, but when, and what was in between, is not known. Both are a [timeline.WatchGap].
type lane[T object] struct {
	kind     string // as people name it: Pod
	resource string // as rights name it: pods
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)
	options  metav1.ListOptions // which objects the API server is asked for
	wanted   func(T) bool       // which of these the lane is about; nil: all
	services []string           // the Services it concerns: NAMESPACE/NAME; empty: every one
	in       string             // its namespace; empty: the objects are in none

	// change gets each object's old and new state; either may be nil. how says how we know.
	change func(old, new T, how how) []timeline.Event
	// settle, if not nil, is called after each change that was watched, and once after a whole list.
	settle func(how how) []timeline.Event
	w      *watcher

	known    map[types.UID]T
	version  string         // to watch from; empty: list first
	begun    bool           // the watch was open once
	proof    time.Duration  // when we last knew that we miss nothing
	broken   error          // why the watch broke, until it is open again
	received bool           // the watch brought something since it was opened
	retry    wait.DelayFunc // how long to wait after the next failure; nil: not at all
}

// how a change became known.
type how int

const (
	watched  how = iota // it was watched
	listed              // the first list has it: it is no change
	relisted            // a later list differs: it happened in a gap
)

// anew makes a lane that is not running begin with a list again. What it knows it keeps.
func (l *lane[T]) anew() { l.version, l.begun, l.broken = "", false, nil }

// run watches until ctx ends, which is no error. The only other end is that we may not, known before the watch was
// open for the first time; a right lost later may come back, and leaves a gap.
func (l *lane[T]) run(ctx context.Context) error {
	err := wait.DelayFunc(l.pause).Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		err = l.once(ctx)
		if _, denied := errors.AsType[*forbiddenError](err); denied && !l.begun {
			return false, err
		}
		if ctx.Err() == nil {
			l.log(err)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pause is how long to wait before the next attempt.
func (l *lane[T]) pause() time.Duration {
	if l.received || l.retry == nil {
		l.retry = backoff().DelayFunc()
		return 0
	}
	return l.retry()
}

// log says that the watch broke; what fails after that is the same trouble, and logged at debug level.
func (l *lane[T]) log(err error) {
	if l.broken == nil {
		l.w.log.Warn("a watch broke", "kind", l.kind, "error", err)
	} else {
		l.w.log.Debug("a watch is still broken", "kind", l.kind, "error", err)
	}
	l.broken = err
}

// once lists if it has to, and watches until the watch breaks. It returns why.
func (l *lane[T]) once(ctx context.Context) error {
	l.received = false
	if l.version == "" {
		if err := l.relist(ctx); err != nil {
			return err
		}
	}
	return l.follow(ctx)
}

// relist brings known up to date, and sets the version to watch from.
func (l *lane[T]) relist(ctx context.Context) error {
	asked := l.w.now()
	list, err := l.list(ctx, l.options)
	if err != nil {
		return l.failed("list", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return l.failed("list", err)
	}
	version, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return l.failed("list", err)
	}
	now := l.w.now()
	l.w.alive(asked, now)
	if l.begun {
		l.gap(now, "the watch could not be resumed: all objects were listed anew, and changes in between may be missing")
		l.compare(items, relisted, now)
	} else {
		l.w.emit(now, 0, l.is("on", ""))
		l.compare(items, listed, now)
	}
	l.version, l.proof, l.broken = version, now, nil
	return nil
}

// compare tells of all that differs between what was known and a list, and knows the list from then on.
func (l *lane[T]) compare(items []runtime.Object, how how, now time.Duration) {
	var since time.Duration
	if how == relisted {
		since = l.proof
	}
	var none T
	present := map[types.UID]T{}
	for _, item := range items {
		if o, ok := item.(T); ok && l.wants(o) {
			present[o.GetUID()] = o
		}
	}
	for _, old := range slices.SortedFunc(maps.Values(l.known), byName) {
		if _, ok := present[old.GetUID()]; !ok {
			l.w.emit(now, since, l.change(old, none, how)...)
		}
	}
	for _, item := range items {
		if o, ok := item.(T); ok && l.wants(o) {
			l.w.emit(now, since, l.change(l.known[o.GetUID()], o, how)...)
		}
	}
	l.known = present
	if l.settle != nil {
		l.w.emit(now, since, l.settle(how)...)
	}
}

// byName orders objects, so that the same history always gives the same facts. Two of a name differ in their UID.
func byName[T object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUID(), b.GetUID()))
}

func (l *lane[T]) wants(o T) bool { return l.wanted == nil || l.wanted(o) }

// follow watches from the version on until the watch breaks, and returns what broke it.
func (l *lane[T]) follow(ctx context.Context) error {
	options := l.options
	options.ResourceVersion = l.version
	options.AllowWatchBookmarks = true
	options.TimeoutSeconds = new(int64(watchFor.Seconds()))
	changes, err := l.watch(ctx, options)
	if err != nil {
		return l.failed("watch", err)
	}
	defer changes.Stop()
	if l.broken != nil && l.begun {
		l.gap(l.w.now(), "the watch broke and was resumed: changes in between arrived late")
	}
	l.begun, l.broken = true, nil
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-changes.ResultChan():
			if !ok {
				return errors.New("the API server ended the watch")
			}
			if err := l.take(e, l.w.now()); err != nil {
				return err
			}
		}
	}
}

// take takes in one event of a watch, which came at now. An error ends the watch.
func (l *lane[T]) take(e watch.Event, now time.Duration) error {
	if e.Type == watch.Error {
		return l.failed("watch", apierrors.FromObject(e.Object))
	}
	o, ok := e.Object.(T)
	if !ok {
		return nil
	}
	l.received, l.proof = true, now
	l.w.alive(now, now)
	if version := o.GetResourceVersion(); version != "" {
		l.version = version
	}
	if e.Type == watch.Bookmark {
		return nil
	}
	old, known := l.known[o.GetUID()]
	if !known && !l.wants(o) {
		return nil
	}
	events := l.change(old, o, watched)
	l.known[o.GetUID()] = o
	if e.Type == watch.Deleted || !l.wants(o) { // o was its last state, or the last that the lane is about
		var none T
		events = append(events, l.change(o, none, watched)...)
		delete(l.known, o.GetUID())
	}
	if l.settle != nil {
		events = append(events, l.settle(watched)...)
	}
	l.w.emit(now, 0, events...)
	return nil
}

// failed completes an error of the API. If it is not one that passes, the version is forgotten: a list puts it right.
func (l *lane[T]) failed(verb string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return missingRight(verb, l.resource, l.in, err)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !passes(int(status.Status().Code)) {
		l.version = ""
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken.Err // the address says nothing that verb and resource do not
	}
	return fmt.Errorf("%s %s: %w", verb, l.resource, err)
}

// passes reports whether an HTTP status tells of trouble that passes. client-go reports a connection lost in the
// middle of a watch as 500.
func passes(code int) bool { return code == http.StatusTooManyRequests || code >= 500 }

func (l *lane[T]) gap(now time.Duration, detail string) {
	if l.broken != nil {
		detail += ": " + l.broken.Error()
	}
	l.w.emit(now, l.proof, timeline.Event{
		Kind: timeline.WatchGap, Object: timeline.Object{Kind: l.kind}, Services: l.services, Writer: writer, Detail: detail,
	})
}

func (l *lane[T]) is(state, why string) timeline.Event { return laneIs(l.kind, l.services, state, why) }

func laneIs(kind string, services []string, state, why string) timeline.Event {
	return timeline.Event{
		Kind: timeline.WatchLane, To: state, Object: timeline.Object{Kind: kind}, Services: services, Writer: writer, Detail: why,
	}
}
