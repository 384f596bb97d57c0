package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/internal/kube"
	"lapse/timeline"
)

// An idle watch looks the same whether nothing changes or the API server hangs: client-go's HTTP/2 ping gives a
// connection up only after 45 s. So the watcher reads the Service, over the connection that the watches share. A time
// without a sign of life is a watch gap.
//
// The read is answered from the storage that kubelets write to. /livez is not: it is fine while nothing can be written.
// So a status of 500 or more is no sign of life, but a refusal is one. Bookmarks come only once a minute. A shorter
// HTTP/2 ping would break watches that are only late. A stall of this process is a gap too, because what came meanwhile
// was seen late.
const (
	askEvery = 500 * time.Millisecond // from one read to the next; longer if the answer takes longer
	askFor   = 5 * time.Second        // timeout of a read

	// longestSilence is the longest time between two signs of life without a gap. Package correlate assumes that an
	// unbroken watch is at most this late (watchLag).
	longestSilence = time.Second
)

// life holds the API server's last sign of life: an answer, or anything that a watch brought.
type life struct {
	mu    sync.Mutex
	begun bool
	from  time.Duration // the API server was alive at some instant between from and to
	to    time.Duration
}

// sign notes that the API server was alive between from and to. silent reports whether that ends a silence. since is
// when the API server was last known to be alive before.
func (l *life) sign(from, to time.Duration) (since time.Duration, silent bool) {
	since, silent = l.silence(to)
	l.begun, l.from, l.to = true, from, max(l.to, to)
	return since, silent
}

// silence reports whether the last sign of life is too long ago by now, and since when.
func (l *life) silence(now time.Duration) (since time.Duration, silent bool) {
	return l.from, l.begun && now-l.to > longestSilence
}

// alive notes a sign of life. It records the silence that ends, if any, before the caller records what the sign
// brought.
func (w *watcher) alive(from, to time.Duration) {
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	if since, silent := w.life.sign(from, to); silent {
		w.silent(since, to)
	}
}

// silent records a silence from since to now: changes in it were seen late.
func (w *watcher) silent(since, now time.Duration) {
	const detail = "the API server gave no sign of life for %v; changes in that time were seen late"
	w.log.Debug("the API server gave no sign of life", "for", now-since)
	w.emit(now, since, timeline.Event{
		Kind:   timeline.WatchGap,
		Writer: writer,
		Detail: fmt.Sprintf(detail, (now - since).Round(10*time.Millisecond)),
	})
}

// askForLife asks again and again until ctx ends. It also records a silence that lasts until then.
func (w *watcher) askForLife(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		asked := w.now()
		if w.Alive(ctx) {
			w.alive(asked, w.now())
		}
	}, askEvery)
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	if since, silent := w.life.silence(w.now()); silent {
		w.silent(since, w.now())
	}
}

// Answers reads a Service, and reports whether the API server answers. A refusal or "not found" is an answer. A failure
// to reach the storage is not: then no change is written.
func Answers(ctx context.Context, client kube.Client, namespace, service string) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_, err := client.Services(namespace).Get(ctx, service, metav1.GetOptions{})
	status := apierrors.APIStatus(nil)
	return err == nil || errors.As(err, &status) && status.Status().Code < 500
}
