package watcher

import (
	"context"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A watch says that an EndpointSlice changed, but not when. So the watcher also reads the EndpointSlices in turn: a
// change came after the last request whose answer does not have it. docs/decisions/0021-reads-that-bound-changes.md
// argues for the numbers.
const (
	readEvery = 100 * time.Millisecond // from one read to the next, over all EndpointSlices

	// readFor is the timeout of a read, and the longest time by which a watch is assumed to be late: a bound that is
	// wider is only used if reads had the change before that.
	readFor = time.Second

	absent = "absent" // the version of an EndpointSlice that is not there
)

// reads holds the results of reading the EndpointSlices. It is safe for concurrent use.
type reads struct {
	mu    sync.Mutex
	turn  []*sliceReads // the next to be read first
	began time.Duration // after a time without reads
}

// begin forgets what was read before a time without reads.
func (r *reads) begin(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = now
	for _, s := range r.turn {
		s.versions, s.since = nil, 0
	}
}

// sliceReads are the reads of one EndpointSlice.
type sliceReads struct {
	uid             types.UID
	namespace, name string
	versions        []versionRead // from the version that the watch brought last to the latest
	since           time.Duration // earliest time of the change to the watch's version; 0: unknown
}

// A versionRead says when a version was read.
type versionRead struct {
	version string
	had     time.Duration // when the first answer came that had it
	asked   time.Duration // when the last request was sent whose answer had it
}

// next returns the next EndpointSlice to read, and moves it to the end.
func (r *reads) next() (s sliceReads, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.turn) == 0 {
		return sliceReads{}, false
	}
	first := r.turn[0]
	r.turn = append(r.turn[1:], first)
	return *first, true
}

// read notes the version that a request sent at asked has returned at answered.
func (r *reads) read(uid types.UID, version string, asked, answered time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(uid)
	if s == nil || version == "" {
		return
	}
	if last := len(s.versions) - 1; last >= 0 && s.versions[last].version == version {
		s.versions[last].asked = asked
		return
	}
	s.versions = append(s.versions, versionRead{version, answered, asked})
}

// changed notes that the watch brought a change of an EndpointSlice at now; old or new may be nil. It returns the
// earliest time of that change: when the last request was sent whose answer was old. If old was never read, it is the
// earliest time of the change before. 0 is unknown: assume that the watch is at most [readFor] late.
func (r *reads) changed(old, new *discoveryv1.EndpointSlice, now time.Duration) (since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had := now // the change was there
	if old != nil {
		if s := r.of(old.UID); s != nil {
			i := s.index(old.ResourceVersion)
			if since = s.since; i >= 0 {
				since = s.versions[i].asked
			}
			if i+1 < len(s.versions) {
				had = s.versions[i+1].had
			}
		}
	}
	switch {
	case new == nil:
		r.turn = slices.DeleteFunc(r.turn, func(s *sliceReads) bool { return s.uid == old.UID })
	case r.of(new.UID) == nil:
		r.turn = append(r.turn, &sliceReads{uid: new.UID, namespace: new.Namespace, name: new.Name})
	default:
		s := r.of(new.UID)
		s.since = since
		if i := s.index(new.ResourceVersion); i >= 0 {
			s.versions = s.versions[i:]
		} else {
			s.versions = nil // it is not known which of them are later
		}
	}
	switch {
	case now-had > readFor: // the watch was later than that, though not before the reads began, as far as is known
		return max(since, r.began-readFor, time.Microsecond)
	case had-since >= readFor:
		return 0
	}
	return since
}

func (r *reads) of(uid types.UID) *sliceReads {
	if i := slices.IndexFunc(r.turn, func(s *sliceReads) bool { return s.uid == uid }); i >= 0 {
		return r.turn[i]
	}
	return nil
}

func (s *sliceReads) index(version string) int {
	return slices.IndexFunc(s.versions, func(v versionRead) bool { return v.version == version })
}

// readSlices reads the EndpointSlices in turn until ctx ends. A read without a resource version returns the latest
// state: https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
func (w *watcher) readSlices(ctx context.Context) {
	rests := true
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		switch was := rests; {
		case w.Reads != nil && !w.Reads():
			rests = true
			return
		case was:
			rests = false
			w.reads.begin(w.now())
		}
		s, ok := w.reads.next()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, readFor)
		defer cancel()
		asked, version := w.now(), absent
		slice, err := w.Client.EndpointSlices(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		switch {
		case err == nil && slice.UID == s.uid:
			version = slice.ResourceVersion
		case err != nil && !apierrors.IsNotFound(err):
			w.log.Debug("an EndpointSlice could not be read", "name", s.name, "error", err)
			return
		}
		w.reads.read(s.uid, version, asked, w.now())
	}, readEvery)
}
