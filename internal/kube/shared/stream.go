package shared

import (
	"context"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// mostKept is how many events of a watch are kept for who begins to follow it, or is slow to.
const mostKept = 512

// A stream is one watch of the API server, which many follow. It is opened for the first of them, and again after it
// has broken.
type stream struct {
	open func(from string) (watch.Interface, error)

	mu     sync.Mutex
	live   *opened // nil: no watch is open, nor being opened
	resume uint64  // the lowest version that those had reached who followed the one that broke; 0: none did
}

// An opened is a watch that is being opened, is open, or was.
type opened struct {
	dialled chan struct{} // closed when the API server has answered, or does not
	err     error         // why the watch was not opened; nil: it was

	mu    sync.Mutex
	first int     // the number of kept[0]
	from  uint64  // the version after which kept[0] is the next
	kept  []event // the last events
	grown chan struct{}
	ended bool

	followers map[*follower]bool
}

// An event is one of a watch, with its object's version and namespace.
type event struct {
	watch.Event
	version   uint64
	namespace string
}

// follow begins to follow the watch after a version, in a namespace, or in all if it is empty. It returns nil if what
// came after that version is not kept.
func (s *stream) follow(ctx context.Context, after uint64, namespace string) (*follower, error) {
	o := s.newest(after)
	select {
	case <-o.dialled:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.err != nil {
		return nil, o.err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if after < o.from {
		return nil, nil
	}
	f := &follower{of: o, next: o.first, reached: after, namespace: namespace,
		out: make(chan watch.Event), stopped: make(chan struct{})}
	o.followers[f] = true
	go f.run()
	return f, nil
}

// newest returns the watch that is open or being opened. If there is none, it begins to open one, for all who ask.
func (s *stream) newest(after uint64) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		if s.resume > 0 { // for those who ask next
			after = min(after, s.resume)
		}
		s.live = &opened{
			dialled: make(chan struct{}), from: after, grown: make(chan struct{}), followers: map[*follower]bool{},
		}
		go s.run(s.live, strconv.FormatUint(after, 10))
	}
	return s.live
}

// run opens a watch, and keeps what it brings until it breaks.
func (s *stream) run(o *opened, from string) {
	source, err := s.open(from)
	s.mu.Lock()
	if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		s.resume = 0
	}
	if o.err = err; err != nil {
		s.live = nil
	}
	s.mu.Unlock()
	close(o.dialled)
	if err == nil {
		s.read(o, source)
	}
}

// read keeps what the watch brings, until it breaks.
func (s *stream) read(o *opened, source watch.Interface) {
	refused := false // the version from which it was opened
	for e := range source.ResultChan() {
		if version, namespace, ok := place(e); ok {
			o.add(event{e, version, namespace})
			continue
		}
		o.add(event{Event: e}) // an error, which each follower is to know of
		err := apierrors.FromObject(e.Object)
		refused = apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
		break
	}
	source.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for f := range o.followers {
		if !refused && (s.resume == 0 || f.reached < s.resume) {
			s.resume = f.reached
		}
	}
	s.live, o.ended = nil, true
	close(o.grown)
}

// place returns the version and the namespace of an event's object.
func place(e watch.Event) (version uint64, namespace string, ok bool) {
	if e.Type == watch.Error {
		return 0, "", false
	}
	object, err := meta.Accessor(e.Object)
	if err != nil {
		return 0, "", false
	}
	version, err = strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return version, object.GetNamespace(), err == nil
}

func (o *opened) add(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept = append(o.kept, e); len(o.kept) > mostKept {
		o.from, o.first = o.kept[0].version, o.first+1
		o.kept[0] = event{} // or the object would stay in memory
		o.kept = o.kept[1:]
	}
	close(o.grown)
	o.grown = make(chan struct{})
}

// A follower is a watch of what a stream brings.
type follower struct {
	of        *opened
	next      int    // the number of the next event
	reached   uint64 // the version of the last one that was handed on
	namespace string

	out      chan watch.Event
	stopping sync.Once
	stopped  chan struct{}
}

func (f *follower) ResultChan() <-chan watch.Event { return f.out }
func (f *follower) Stop()                          { f.stopping.Do(func() { close(f.stopped) }) }

// run hands on what comes until the watch breaks, or the follower is so slow that it has missed something.
func (f *follower) run() {
	defer close(f.out)
	defer f.leave()
	for {
		news, grown, ok := f.take()
		for _, e := range news {
			select {
			case f.out <- e:
			case <-f.stopped:
				return
			}
		}
		if !ok {
			return
		}
		select {
		case <-grown:
		case <-f.stopped:
			return
		}
	}
}

// take returns what came since the last call, and a channel that is closed when there is more. It reports false if
// there is none any more.
func (f *follower) take() (news []watch.Event, grown <-chan struct{}, ok bool) {
	o := f.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.next < o.first {
		return nil, nil, false
	}
	for _, e := range o.kept[f.next-o.first:] {
		if f.wants(e) {
			news, f.reached = append(news, e.Event), max(f.reached, e.version)
		}
	}
	f.next = o.first + len(o.kept)
	return news, o.grown, !o.ended
}

func (f *follower) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.followers, f)
}

func (f *follower) wants(e event) bool {
	switch {
	case e.Type == watch.Error:
		return true
	case e.version <= f.reached:
		return false
	}
	return f.namespace == "" || e.namespace == "" || e.namespace == f.namespace // a bookmark or a node is in none
}
