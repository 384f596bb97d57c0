package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"lapse/internal/bucket"
	"lapse/internal/history"
	"lapse/internal/run/saved"
)

// A Bucket is where runs are kept beyond their directory, as [bucket.Bucket].
type Bucket interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	String() string // its name
}

const (
	mostWaiting = 2000             // lines in memory, of 2 kB at most; more are on disk, as the runs are
	putFor      = 15 * time.Minute // the most that one attempt takes; a bucket that stands still is left after a minute
	putAtTheEnd = 20 * time.Second // of the minute in which a Pod has to end
)

// keepInBucket hands all runs over to the bucket until stop is called, those first that a guard before this one has
// not. Each of several guards does so. If one is lost with its runs, the bucket has those of another.
func (g *guard) keepInBucket() (stop func()) {
	if g.Bucket == nil {
		return func() {}
	}
	g.bucket.Add(g.store.KeepIn(g.Bucket.String())...)
	ctx, cancel := context.WithCancel(context.Background()) // the end of a guard ends runs, which are kept, too
	var putting sync.WaitGroup
	putting.Go(func() { g.bucket.Run(ctx) })
	return func() { cancel(); putting.Wait() }
}

// put puts runs into the bucket, and returns how many of them are there.
func (g *guard) put(ctx context.Context, lines []history.Line) (n int, err error) {
	for _, line := range lines {
		if err := g.putRun(ctx, line); ofThisRun(err) {
			g.told.StoreErrors.Inc()
			g.Log.Error("the bucket cannot take a run, which stays on disk", "run", line.Run, "error", err)
			n++
			continue
		} else if err != nil {
			return n, fmt.Errorf("%s: %w", line.Run, err)
		}
		if err := g.store.Kept(line.Run); err != nil { // the next guard puts it there again
			g.Log.Warn("that a run is in the bucket is not on disk", "run", line.Run, "error", err)
		}
		n++
	}
	g.isPut()
	return n, nil
}

// ofThisRun reports whether an error is of one run's files, and says nothing of the others.
func ofThisRun(err error) bool {
	_, here := errors.AsType[*fs.PathError](err)
	r, refused := errors.AsType[*bucket.Refusal](err)
	return here || refused && r.TooLarge()
}

// putRun puts what there is of a run into the bucket, its line last: who finds that finds the rest.
func (g *guard) putRun(ctx context.Context, line history.Line) error {
	for _, name := range append(files, saved.PartialFile) {
		f, err := g.store.Open(line.Run, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(g.Bucket.Put(ctx, bucket.FileKey(line.Run, name), f), f.Close())
		}
		if err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := history.Write(&text, line); err != nil {
		return err
	}
	return g.Bucket.Put(ctx, bucket.LinesKey(line.Run, line.T0), bytes.NewReader(text.Bytes()))
}

// notPut counts that the bucket did not take a run, and logs it until one is taken.
func (g *guard) notPut(err error) {
	g.told.StoreErrors.Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.bucketAway {
		g.Log.Error("the bucket takes no run, which wait on disk; this is logged again once it did",
			"bucket", g.Bucket.String(), "error", err)
	}
	g.bucketAway = true
}

func (g *guard) isPut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bucketAway {
		g.Log.Info("the bucket takes runs again", "bucket", g.Bucket.String())
	}
	g.bucketAway = false
}

// Away says that the bucket takes no run.
type Away struct {
	Bucket string    `json:"bucket"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why"`
	Wait   int       `json:"wait"` // runs
}

// away returns why the bucket takes no run, nil if it does.
func (g *guard) away() *Away {
	if g.bucket == nil {
		return nil
	}
	n, why, since := g.bucket.Waits()
	if why == "" {
		return nil
	}
	return &Away{g.Bucket.String(), since.UTC(), why, n}
}
