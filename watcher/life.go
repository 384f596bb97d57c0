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

	"lapse/timeline"
)

// An idle watch looks the same whether nothing changes or the API server hangs: the connection itself is only given
// up after 45 s (client-go's HTTP/2 ping). So the API server is asked for the Service, over the connection that the
// watches share, and a time without any sign of life is a watch gap. Such a read is answered from the storage, as
// kubelets' writes are; /livez is not, and says that all is well while nothing can be written. So a status of 500 or
// more is no sign of life, and a refusal is one. Bookmarks come only once a minute. A shorter HTTP/2 ping would break
// watches that are only late. A stall of our own process is a gap too: what came meanwhile was learned late.
const (
	askEvery       = 500 * time.Millisecond // from one question to the next, or longer if the answer takes longer
	longestSilence = time.Second            // between two signs of life; correlate takes an unbroken watch to be no later (watchLag)
	askFor         = 5 * time.Second        // how long one answer is awaited
)

// life is what is known of the API server's being alive. Every answer, and everything a watch brings, is a sign of it.
type life struct {
	mu    sync.Mutex
	begun bool
	from  time.Duration // it was alive at an instant between from
	to    time.Duration // and to: the last sign
}

// sign notes that the API server was alive between from and to. If that ends a silence, since is the last instant
// before at which it is known to have been alive.
func (l *life) sign(from, to time.Duration) (since time.Duration, silent bool) {
	since, silent = l.silence(to)
	l.begun, l.from, l.to = true, from, max(l.to, to)
	return since, silent
}

// silence reports whether there has been no sign of life for too long by now, and since when.
func (l *life) silence(now time.Duration) (since time.Duration, silent bool) {
	return l.from, l.begun && now-l.to > longestSilence
}

// alive notes a sign of life. A silence that ends with it is recorded before whatever the sign brought.
func (w *watcher) alive(from, to time.Duration) {
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	if since, silent := w.life.sign(from, to); silent {
		w.silent(since, to)
	}
}

// silent records that what changed between since and now was learned late.
func (w *watcher) silent(since, now time.Duration) {
	w.log.Debug("the API server gave no sign of life", "for", now-since)
	w.emit(now, since, timeline.Event{
		Kind: timeline.WatchGap, Writer: writer,
		Detail: fmt.Sprintf("the API server gave no sign of life for %v; what changed meanwhile was learned late", (now - since).Round(10*time.Millisecond)),
	})
}

// askForLife asks the API server for the first Service until ctx ends. A silence that lasts until then is recorded too.
func (w *watcher) askForLife(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		asked := w.now()
		if w.answered(ctx) {
			w.alive(asked, w.now())
		}
	}, askEvery)
	w.life.mu.Lock()
	defer w.life.mu.Unlock()
	if since, silent := w.life.silence(w.now()); silent {
		w.silent(since, w.now())
	}
}

// answered reports whether the API server answers. That it refuses, or knows no such Service, is an answer too; that
// it cannot answer because it does not reach its storage is none, for then no change is written.
func (w *watcher) answered(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_, err := w.Client.Services(w.Services[0].Namespace).Get(ctx, w.Services[0].Name, metav1.GetOptions{})
	status := apierrors.APIStatus(nil)
	return err == nil || errors.As(err, &status) && status.Status().Code < 500
}
