package guard

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/trend"
	"lapse/internal/bucket"
	"lapse/internal/guard/gate"
	"lapse/internal/guard/store"
	"lapse/internal/history"
)

// objects are a bucket in memory. A real one is in tools/s3.
type objects struct {
	sync.Mutex
	away error
	slow time.Duration // that each object takes
	most string        // a run that is too large
	has  map[string]string
}

func (o *objects) String() string { return "s3://runs/prod" }

func (o *objects) Put(_ context.Context, key string, body io.ReadSeeker) error {
	o.Lock()
	defer o.Unlock()
	if o.away != nil {
		return o.away
	}
	if o.most != "" && strings.Contains(key, o.most) {
		return &bucket.Refusal{Status: http.StatusRequestEntityTooLarge}
	}
	time.Sleep(o.slow) // of virtual time
	text, err := io.ReadAll(body)
	o.has[key] = string(text)
	return err
}

func (o *objects) goes(why error) {
	o.Lock()
	defer o.Unlock()
	o.away = why
}

// lines returns those of the history.
func (o *objects) lines(t *testing.T) (all []history.Line) {
	t.Helper()
	o.Lock()
	defer o.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.has)) {
		if strings.HasPrefix(key, "history/date=") {
			lines, unread, err := history.Read(strings.NewReader(o.has[key]))
			if err != nil || unread != nil {
				t.Fatal(unread, err)
			}
			all = append(all, lines...)
		}
	}
	return all
}

// guard returns a guard that keeps its runs in dir, and in the bucket.
func (o *objects) guard(t *testing.T, dir string, leader Leader) *fake {
	return newFakeWith(t, dir, func(c *Config) { c.Bucket, c.Leader = o, leader })
}

// A bucket that is away for a minute, or slow, keeps nobody waiting, and misses nothing. That is said with since when and
// why in the status, once in the log, and in the metric.
func TestABucketThatIsAwayMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &objects{has: map[string]string{}, slow: 10 * time.Second}
		f := o.guard(t, filepath.Join(t.TempDir(), "runs"), nil)
		f.guards("shop/web")
		o.goes(errors.New("connection refused"))
		f.disrupt("shop/web", 3)()
		failed := f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		since := time.Now().UTC()
		time.Sleep(time.Minute) // of virtual time
		if a := f.report().Away; a == nil || *a != (Away{"s3://runs/prod", since, failed.Run + ": connection refused", 1}) {
			t.Errorf("the status says %+v", a)
		}
		if problems := strings.Join(f.problems(), "\n"); !strings.Contains(problems, "s3://runs/prod has taken no run since "+since.Format(time.RFC3339)+", 1 run only on disk") {
			t.Error(problems)
		}
		if n := strings.Count(f.log.String(), "the bucket takes no run"); n != 1 || f.exports("lapse_store_errors_total 0") {
			t.Errorf("said %d times: %s", n, f.log)
		}
		o.goes(nil)
		f.disrupt("shop/web", 0)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Pass)
		time.Sleep(3 * time.Minute) // of virtual time
		if a := f.report().Away; a != nil || !strings.Contains(f.log.String(), "the bucket takes runs again") {
			t.Errorf("%+v, and the log has %s", a, f.log)
		}
		lines := o.lines(t)
		if len(lines) != 2 || lines[0].Run != failed.Run || lines[0].Failed != 3 || lines[0].Recording == "" {
			t.Fatalf("%+v", lines)
		}
		for _, l := range lines {
			if o.has["runs/"+l.Run+"/facts.lapse"] == "" || o.has["runs/"+l.Run+"/timeline.json"] == "" {
				t.Errorf("of %s it has not all of %q", l.Run, slices.Sorted(maps.Keys(o.has)))
			}
		}
	})
}

// What the bucket did not take before the guard ended, the next one with its directory hands over, and only that. A run
// that is deleted for lack of space meanwhile leaves its line.
func TestTheNextGuardHandsOverWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, dir := &objects{has: map[string]string{}}, filepath.Join(t.TempDir(), "runs")
		f := o.guard(t, dir, nil)
		f.guards("shop/web")
		f.disrupt("shop/web", 1)()
		o.goes(errors.New("connection refused"))
		f.disrupt("shop/web", 2)()
		f.stop()
		if lines := o.lines(t); len(lines) != 1 || lines[0].Failed != 1 {
			t.Fatalf("%+v", lines)
		}
		o.goes(nil)
		clear(o.has)
		next := o.guard(t, dir, nil)
		next.guards("shop/web")
		if lines := o.lines(t); len(lines) != 1 || lines[0].Failed != 2 || lines[0].Recording == "" {
			t.Fatalf("the next guard handed over %+v", lines)
		}
		o.goes(errors.New("connection refused"))
		next.store.Limit(store.Limits{Bytes: 1})
		next.disrupt("shop/web", 0)()
		time.Sleep(time.Minute) // of virtual time
		next.disrupt("shop/web", 5)()
		if !strings.Contains(next.log.String(), "before the bucket had it") {
			t.Errorf("not in the log: %s", next.log)
		}
		next.stop()
		o.goes(nil)
		o.guard(t, dir, nil)
		time.Sleep(3 * time.Minute) // of virtual time
		if lines := o.lines(t); len(lines) != 3 || lines[1].Failed != 0 || lines[2].Failed != 5 || len(o.has) != 3+2+2 {
			t.Errorf("%+v of %q", lines, slices.Sorted(maps.Keys(o.has)))
		}
	})
}

// A bucket that is away while more runs end than may wait in memory gets all of them when it is back, also the lines of
// those that were deleted meanwhile.
func TestABucketThatIsAwayForLongMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &objects{has: map[string]string{}, away: errors.New("connection refused")}
		f := o.guard(t, filepath.Join(t.TempDir(), "runs"), nil)
		f.guards("shop/web")
		f.bucket.Most = 2
		for n := range 5 {
			f.disrupt("shop/web", n)()
		}
		f.store.Limit(store.Limits{Bytes: 1})
		f.disrupt("shop/web", 5)()
		if a := f.report().Away; a == nil || a.Wait != 6 {
			t.Errorf("the status says %+v", a)
		}
		o.goes(nil)
		time.Sleep(3 * time.Minute) // of virtual time
		if lines := o.lines(t); len(lines) != 6 {
			t.Errorf("the bucket has %+v", lines)
		}
		if waiting := f.store.Waiting(); waiting != nil {
			t.Errorf("%+v wait", waiting)
		}
	})
}

// A run that the bucket cannot take keeps no other one from it.
func TestARunThatIsTooLargeStaysOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &objects{has: map[string]string{}, away: errors.New("connection refused")}
		f := o.guard(t, filepath.Join(t.TempDir(), "runs"), nil)
		f.guards("shop/web")
		f.disrupt("shop/web", 3)()
		o.Lock()
		o.away, o.most = nil, f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail).Run
		o.Unlock()
		f.disrupt("shop/web", 1)()
		time.Sleep(3 * time.Minute) // of virtual time
		if lines := o.lines(t); len(lines) != 1 || lines[0].Failed != 1 {
			t.Errorf("the bucket has %+v", lines)
		}
		if a := f.report().Away; a != nil || !strings.Contains(f.log.String(), "the bucket cannot take a run") {
			t.Errorf("%+v, and the log has %s", a, f.log)
		}
	})
}

// Both of two guards hand over what they measured, whichever leads, and a disruption counts once.
func TestADisruptionThatTwoGuardsHandOverCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &objects{has: map[string]string{}}
		one, two := &elected{}, &elected{}
		one.leads.Store(true)
		two.other = "10.0.0.1:7117"
		leader, other := o.guard(t, filepath.Join(t.TempDir(), "a"), one), o.guard(t, filepath.Join(t.TempDir(), "b"), two)
		for _, f := range []*fake{leader, other} {
			f.guards("shop/web")
		}
		end, endOther := leader.disrupt("shop/web", 1), other.disrupt("shop/web", 2)
		end()
		endOther()
		lines := o.lines(t)
		if tr := trend.Of(lines); len(lines) != 2 || tr.Runs != 1 || tr.Again != 1 || tr.Pools[0].Releases[0].Requests.Failed != 2 {
			t.Errorf("%d lines, of which %d count", len(lines), tr.Runs)
		}
	})
}

func (f *fake) problems() []string {
	r := f.report()
	return r.problems()
}
