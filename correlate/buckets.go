package correlate

import (
	"iter"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Buckets are 100 ms wide. Once a run needs more than maxBuckets of them they merge in pairs, so that an
// hour still fits on a screen and in memory.
const (
	bucketWidth = 100 * time.Millisecond
	maxBuckets  = 3000
)

// A bucket counts the requests of one target that were sent in it. There are thousands for each target,
// so it is small.
type bucket struct {
	sent, failed uint32
	latency      model.Histogram              // of ok requests, but for those in an open bucket
	classes      *[timeline.NumClasses]uint32 // failures by class; nil while there are none
}

// fail counts failed requests.
func (s *bucket) fail(class timeline.Class, n uint32) {
	if s.classes == nil {
		s.classes = new([timeline.NumClasses]uint32)
	}
	s.failed += n
	s.classes[class] += n
}

// merge adds what o counted.
func (s *bucket) merge(o bucket) {
	s.sent += o.sent
	s.latency = s.latency.Plus(o.latency)
	if o.classes == nil {
		return
	}
	for class, n := range o.classes {
		if n > 0 {
			s.fail(timeline.Class(class), n)
		}
	}
}

// An openBucket counts the ok requests of one bucket by latency, until they are packed into it.
type openBucket struct {
	bucket    int
	low, high int // counts outside [low, high) are 0; high is 0 if all are
	counts    [model.LatencyBins]uint32
}

func (t *openBucket) add(latencySlot int) {
	if t.high == 0 {
		t.low = latencySlot
	}
	t.low, t.high = min(t.low, latencySlot), max(t.high, latencySlot+1)
	t.counts[latencySlot]++
}

// empty returns the counts, and clears them.
func (t *openBucket) empty() model.Histogram {
	var p model.HistogramPacker
	for i := t.low; i < t.high; i++ {
		if t.counts[i] > 0 {
			p.Put(i, int(t.counts[i]))
		}
	}
	clear(t.counts[t.low:t.high])
	t.low, t.high = 0, 0
	return p.Histogram()
}

// A series is one target's buckets from T0 on.
//
// Requests come in the order of their answers, so that a few buckets next to each other take all of
// them. These are open: bucket i is counted in open[i modulo their number], until another bucket needs that place.
//
// Most endpoints of a large Service are probed for a short part of a run, so buckets come in chunks, and those
// without requests take nothing.
type series struct {
	timeout time.Duration // of a request
	seldom  bool          // requests are so rare that none is counted in an open bucket
	width   time.Duration
	n       int // buckets, from T0 to the last one with a request
	chunks  []*bucketChunk
	open    []openBucket // none before the first ok request
}

type bucketChunk [32]bucket

// at returns bucket i, which is made if there is none.
func (s *series) at(i int) *bucket {
	chunk := i / len(bucketChunk{})
	for len(s.chunks) <= chunk {
		s.chunks = append(s.chunks, nil)
	}
	if s.chunks[chunk] == nil {
		s.chunks[chunk] = new(bucketChunk)
	}
	s.n = max(s.n, i+1)
	return &s.chunks[chunk][i%len(bucketChunk{})]
}

// all yields the buckets that can hold something, by index.
func (s *series) all() iter.Seq2[int, *bucket] {
	return func(yield func(int, *bucket) bool) {
		for c, chunk := range s.chunks {
			if chunk == nil {
				continue
			}
			for i := range chunk {
				if at := c*len(chunk) + i; at < s.n && !yield(at, &chunk[i]) {
					return
				}
			}
		}
	}
}

// rest lets go of what is needed only while requests come.
func (s *series) rest() {
	s.packAll()
	s.open = nil
}

// maxOpenBuckets is how many buckets can be counted in without packing, at most. One takes 1.7 kB, and a run can have
// thousands of targets.
const maxOpenBuckets = 16

// seldom is the interval from which on a target has no open buckets: to pack each of its requests takes no time to
// speak of. Where many nodes ask many Services, a target is asked every few seconds, and there are thousands of them.
const seldom = time.Second

// openBuckets returns how many buckets requests can be sent in before the first of them is answered.
func (s *series) openBuckets() int {
	return int(min(s.timeout/s.width+2, maxOpenBuckets))
}

// add counts an observed request.
func (s *series) add(r *timeline.Request) {
	i := s.index(r.Sent)
	s.at(i).sent++
	switch {
	case r.Class != timeline.OK:
		s.at(i).fail(r.Class, 1)
	case r.Delayed:
	case s.seldom:
		of := s.at(i)
		of.latency = of.latency.Plus(model.NewHistogram(model.SparseCounts{model.LatencyBin(r.Latency()), 1}))
	default:
		s.openBucket(i).add(model.LatencyBin(r.Latency()))
	}
}

// index returns which bucket instant t lies in, widening buckets until there are few enough.
func (s *series) index(t time.Duration) int {
	s.width = max(s.width, bucketWidth)
	t = max(t, 0)
	for t/s.width >= maxBuckets {
		s.widen(2 * s.width)
	}
	return int(t / s.width)
}

// openBucket returns the counts of bucket i.
func (s *series) openBucket(i int) *openBucket {
	if s.open == nil {
		s.open = make([]openBucket, s.openBuckets())
	}
	t := &s.open[i%len(s.open)]
	if t.bucket != i {
		s.pack(t)
		t.bucket = i
	}
	return t
}

// pack adds the counts of an open bucket to it.
func (s *series) pack(t *openBucket) {
	if t.high > 0 {
		of := s.at(t.bucket)
		of.latency = of.latency.Plus(t.empty())
	}
}

func (s *series) packAll() {
	for i := range s.open {
		s.pack(&s.open[i])
	}
}

// widen merges buckets until they are width wide: a power of two times their width.
func (s *series) widen(width time.Duration) {
	s.packAll()
	s.width = max(s.width, bucketWidth)
	if s.width < width {
		s.open = nil // fewer are needed
	}
	for s.width < width {
		narrow := *s
		s.n, s.chunks = 0, nil
		for i, b := range narrow.all() {
			if b.sent > 0 {
				s.at(i / 2).merge(*b)
			}
		}
		s.width *= 2
	}
}

// publish returns the first n buckets as they stand.
func (s *series) publish(n int) model.BucketSeries {
	b := model.BucketSeries{
		Sent:       make([]int, n),
		Failed:     make([]int, n),
		Unobserved: make([]float64, n),
		Latency:    make([]model.Histogram, n),
	}
	s.packAll()
	for i, bucket := range s.all() {
		b.Sent[i], b.Failed[i], b.Latency[i] = int(bucket.sent), int(bucket.failed), bucket.latency
		noteClasses(&b, i, bucket.classes)
	}
	return b
}

// answered counts the requests in the buckets that lie between two instants, and those of them that were answered,
// good or bad.
func (s *series) answered(from, to time.Duration) (answered, sent int) {
	s.packAll()
	width := max(s.width, bucketWidth)
	for i, b := range s.all() {
		if begin := time.Duration(i) * width; begin < from || begin+width > to {
			continue
		}
		sent, answered = sent+int(b.sent), answered+int(b.sent-b.failed)
		if b.classes != nil {
			answered += int(b.classes[timeline.HTTP5xx] + b.classes[timeline.HTTP4xx] + b.classes[timeline.Body])
		}
	}
	return answered, sent
}

// noteUnobserved notes which share of each slot is unobserved.
func noteUnobserved(b *model.BucketSeries, width time.Duration, unobserved []windows.Period) {
	for _, d := range unobserved {
		for i := int(d.From / width); i < len(b.Unobserved) && time.Duration(i)*width < d.To; i++ {
			from := time.Duration(i) * width
			b.Unobserved[i] += float64(min(d.To, from+width)-max(d.From, from)) / float64(width)
		}
	}
}

// noteClasses notes what classes bucket i's failures are of.
func noteClasses(b *model.BucketSeries, i int, classes *[timeline.NumClasses]uint32) {
	if classes == nil {
		return
	}
	if b.Classes == nil {
		b.Classes = map[string]model.SparseCounts{}
	}
	for class, n := range classes {
		if n > 0 {
			name := timeline.Class(class).String()
			b.Classes[name] = append(b.Classes[name], i, int(n))
		}
	}
}

// bucketsWide returns the smallest width a bucket can have that brings end within maxBuckets, and holds two
// requests of a target whose interval is the longest that matters.
func bucketsWide(end, longest time.Duration) time.Duration {
	width := bucketWidth
	for end/width >= maxBuckets || width < 2*longest && width < time.Hour {
		width *= 2
	}
	return width
}

// slots are the buckets as they are published: those of all targets are as wide.
type slots struct{ width time.Duration }

// widen makes the buckets of all targets as wide as they are published, also of those that have ended: most endpoints
// of a large Service end early, and many narrow buckets take much memory.
func (l *slots) widen(snapshots []*snapshot, f *sourceFacts) {
	var longest time.Duration
	for _, s := range snapshots {
		if s.target.Kind.Judged() {
			longest = max(longest, s.reading.Intervals.Shortest(windows.Always.From, windows.Always.To))
		}
	}
	width := bucketsWide(l.end(snapshots, f), longest)
	if width == l.width {
		return
	}
	for _, s := range snapshots {
		s.track.series.widen(width)
	}
	l.width = width
}

// end returns where the last bucket ends that something was measured in.
func (l *slots) end(snapshots []*snapshot, f *sourceFacts) (end time.Duration) {
	for _, s := range snapshots {
		last := max(s.measured.To, s.tally.lastSent+1)
		end = max(end, last, f.clocks.At(s.target.Source, last).Latest)
	}
	return end
}

// count returns how many buckets every target has.
func (l *slots) count(snapshots []*snapshot, f *sourceFacts) int {
	return int((l.end(snapshots, f) + l.width - 1) / l.width)
}

// buckets publishes every target's series over the same slots.
func (l *slots) buckets(snapshots []*snapshot, f *sourceFacts) model.Buckets {
	b, n := model.Buckets{Width: l.width, Targets: map[string]model.BucketSeries{}}, l.count(snapshots, f)
	for _, s := range snapshots {
		b.Targets[s.target.Name] = l.series(s, n, f)
	}
	return b
}

// series publishes the first n buckets of a target.
func (l *slots) series(s *snapshot, n int, f *sourceFacts) model.BucketSeries {
	clock := f.aligned(s.target.Source)
	s.track.series.widen(l.width)
	published := clock.series(s.track.series.publish(n), l.width)
	noteUnobserved(&published, l.width, clock.periods(s.unobserved))
	if s.target.Kind == timeline.Direct {
		published = published.Measured()
	}
	return published
}
