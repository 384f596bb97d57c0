package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lapse/deploy"
	"lapse/internal/kube"
	"lapse/internal/kube/shared"
	"lapse/internal/run/live"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// Many measures many Services in one process, each by itself: see [Many.MeasureAgain]. One thread paces the requests to
// all of them, one watch of each kind serves all of them, and the API server is asked for a sign of life once for all.
type Many struct {
	thread *loadgen.Thread
	client kube.Client
	life   life
	stop   func()

	cluster  atomic.Pointer[timeline.Cluster] // as it was described last; nil: it was not since the Services were found
	skip     int                              // so many times kube-proxy's configuration is not asked for
	unshared kube.Client
	crew     *crew // on other nodes; nil: nobody else measures
	keys     *renewed
}

// NewMany returns a Many that measures nothing before [Many.Run]. The Services are those of a namespace, or of any if
// it is empty.
func NewMany(client kube.Client, namespace string, log *slog.Logger) *Many {
	ctx, stop := context.WithCancel(context.Background())
	clock := timeline.StartClock()
	return &Many{
		thread: loadgen.NewThread(clock, loadgen.Economical, log),
		client: shared.New(ctx, client, namespace), stop: stop, unshared: client,
		life: life{now: clock.Now, last: -askEvery, ask: func(namespace, service string) bool {
			return watcher.Answers(ctx, client, namespace, service)
		}},
	}
}

// Run paces requests until over is closed, which is when the last Service is not measured any more. Many Services and
// nodes may need more memory than the Pod begins with.
func (all *Many) Run(over <-chan struct{}) {
	defer all.stop()
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if all.crew != nil {
		beside.Go(func() { all.crew.run(ctx) })
		beside.Go(func() { all.keys.keep(ctx) })
	}
	beside.Go(func() { source.Every(ctx, time.Second, func() { live.RaiseMemoryLimit(deploy.MostMemory) }) })
	beside.Go(func() { source.Every(ctx, describeEvery, func() { all.describe(ctx) }) })
	all.thread.Run(over)
}

// describeEvery is the time between two questions about the cluster: its control plane may be upgraded. Each denied one
// is in its audit log: kube-proxy's configuration is asked for again after an hour.
const (
	describeEvery = time.Minute
	skipDenied    = int(time.Hour/describeEvery) - 1
)

// describe asks what is known of the cluster. Without an answer, what was known before stays.
func (all *Many) describe(ctx context.Context) {
	var c timeline.Cluster
	if all.skip > 0 {
		all.skip--
	} else if proxy, err := watcher.DescribeProxy(ctx, all.unshared); err == nil {
		c = proxy
	} else if apierrors.IsForbidden(err) {
		all.skip = skipDenied
	}
	if c.Version = watcher.Version(ctx, all.unshared); c.Version != "" {
		all.cluster.Store(&c)
	}
}

// begins completes the description of a run that begins: what it is measured by may be weeks old.
func (all *Many) begins(by spec.Spec, meta *timeline.Meta) {
	c := all.cluster.Load()
	if c == nil {
		return
	}
	meta.Cluster.Version = c.Version
	if c.ProxyMode != "" {
		meta.Cluster = *c
	}
	by.Cluster = meta.Cluster
	meta.Spec = spec.MustMarshal(by)
}

// askEvery is how much later than the last question to the API server the next one is asked.
const askEvery = 200 * time.Millisecond

// life asks the API server for a sign of life, for many who want to know.
type life struct {
	ask func(namespace, service string) bool
	now func() time.Duration

	mu   sync.Mutex
	last time.Duration // when it was asked last
	next *question     // that is not asked yet; nil: none is to be
}

// A question is one to the API server, for all who wanted to know before it was asked.
type question struct {
	answered chan struct{}
	alive    bool
}

// gives reports whether the API server gives a sign of life after the call. It is asked for the Service.
func (l *life) gives(ctx context.Context, namespace, service string) bool {
	l.mu.Lock()
	q := l.next
	if q == nil {
		q = &question{answered: make(chan struct{})}
		l.next = q
		time.AfterFunc(l.last+askEvery-l.now(), func() {
			l.mu.Lock()
			l.last, l.next = l.now(), nil
			l.mu.Unlock()
			q.alive = l.ask(namespace, service)
			close(q.answered)
		})
	}
	l.mu.Unlock()
	select {
	case <-q.answered:
		return q.alive
	case <-ctx.Done():
		return false
	}
}
