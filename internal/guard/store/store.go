// Package store keeps the runs of a guard in a directory: each as an ordinary run, a line of history for each, and of
// the runs no more than its limits allow.
//
//	DIR/history.ndjson                                     appended to; if it grows too long, the oldest are dropped
//	DIR/waiting-lines                                      the deleted runs whose lines are to be kept elsewhere, too
//	DIR/observed.json                                      for how long each Service was observed, by day
//	DIR/lapse-20261126-101500-ab3d/{facts.lapse,timeline.json,kept-in}
package store

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/history"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
)

// A Store is a directory of runs. Any goroutine may use it.
type Store struct {
	dir     string
	log     *slog.Logger
	release func() // unlocks dir

	mu     sync.Mutex
	limits Limits
	kept   []Kept
	place  string // where runs are kept, too; empty: nowhere
	// the names of runs that were deleted before they were there
	deleted []string

	observed history.Observed
}

// Open opens a directory until [Store.Close], and makes it if it is not there. It refuses one that another guard has
// open, and leaves runs alone that no guard has made. It judges what a guard that was killed has left unjudged. found
// gets each run, and whether it was judged only now, in the order of their names, which is that of time.
func Open(dir string, limits Limits, log *slog.Logger, found func(tl *model.Timeline, now bool)) (*Store, error) {
	release, err := saved.ClaimDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, limits: limits, log: log, release: release}
	if s.observed, err = saved.ReadObserved(dir); err != nil {
		log.Warn("how long Services were observed before is lost", "error", err)
	}
	inHistory := s.inHistory()
	for _, name := range saved.Runs(dir) {
		if _, err := os.Stat(filepath.Join(dir, name, placeFile)); err != nil { // as of `lapse run`
			continue
		}
		run := Kept{Name: name, Ended: s.written(name), Bytes: s.size(name)}
		tl, err := s.read(name)
		unjudged := errors.Is(err, fs.ErrNotExist)
		if unjudged {
			tl, err = s.judge(name)
		}
		if err == nil {
			run.Verdict, run.line = tl.Verdict.Result, history.Of(tl, "")[0]
			run.Ended = ended(run.line)
			if !unjudged && !inHistory(name) { // the guard was killed before it had written that
				log.Warn("a run was missing in the history", "run", name, "error", s.rememberRun(name, tl))
			}
			found(tl, unjudged)
		} else {
			log.Warn("a run cannot be read", "run", name, "error", err)
		}
		s.kept = append(s.kept, run)
	}
	return s, nil
}

// Close lets another guard open the directory.
func (s *Store) Close() { s.release() }

// Limit changes the limits. They count from the end of the next run on.
func (s *Store) Limit(to Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = to
}

// Observe adds and writes down how long all guarded Services were observed until an instant, since the call before.
func (s *Store) Observe(until time.Time, lengths map[string]time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed.Add(until, lengths)
	return saved.WriteObserved(s.dir, s.observed)
}

func (s *Store) read(name string) (*model.Timeline, error) {
	f, err := os.Open(filepath.Join(s.dir, name, saved.TimelineFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.ReadJSON(f)
}

// judge judges a run that was broken off.
func (s *Store) judge(name string) (*model.Timeline, error) {
	dir := filepath.Join(s.dir, name)
	tl, err := saved.Load(dir, correlate.Options{}, nil)
	if err != nil {
		return nil, err
	}
	err = errors.Join(saved.WriteTimeline(dir, tl), s.rememberRun(name, tl))
	s.log.Warn("a run was broken off", "run", name, "error", err)
	return tl, nil
}

// rememberRun appends a run in the directory to the history.
func (s *Store) rememberRun(name string, tl *model.Timeline) error {
	sum, err := saved.RecordingSum(filepath.Join(s.dir, name))
	return errors.Join(err, s.remember(history.Of(tl, sum)))
}

// ended returns when a run ended.
func ended(l history.Line) time.Time { return l.T0.Add(l.Duration) }

// written returns when a run was written, for one that cannot be read. That it is kept elsewhere is noted later.
func (s *Store) written(name string) (at time.Time) {
	s.files(name, func(info fs.FileInfo) {
		if info.ModTime().After(at) && info.Name() != placeFile {
			at = info.ModTime()
		}
	})
	return at
}

func (s *Store) size(name string) (bytes int64) {
	s.files(name, func(info fs.FileInfo) { bytes += info.Size() })
	return bytes
}

func (s *Store) files(name string, each func(fs.FileInfo)) {
	entries, _ := os.ReadDir(filepath.Join(s.dir, name))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			each(info)
		}
	}
}

// A Run is a run that goes on.
type Run struct {
	Rec *live.Recording // nil: there is no place for it

	store   *Store
	name    string
	release func()
	err     error // why it is not recorded
}

// Begin makes a directory and a recording for a run. If that fails the run goes on in memory, and [Run.End] says why.
func (s *Store) Begin(id string) *Run {
	r := &Run{store: s, name: id, release: func() {}}
	file, release, err := saved.BeginRecording(filepath.Join(s.dir, id), record.Create)
	if err != nil {
		s.log.Error("the run is not recorded", "run", id, "error", err)
		r.err = err
		return r
	}
	r.release = release
	if err := os.WriteFile(filepath.Join(s.dir, id, placeFile), nil, 0o644); err != nil {
		s.log.Warn("the next guard will not take a run for one of a guard", "run", id, "error", err)
	}
	r.Rec = &live.Recording{Writer: file, Every: time.Second, Log: s.log}
	return r
}

// End ends the recording, keeps the judged run, appends its lines to the history, and deletes what exceeds the limits.
// It waits for the disk. It returns the first of these lines. What could not be written is in the run's verdict, and in
// the error.
func (r *Run) End(tl *model.Timeline) (line history.Line, err error) {
	defer r.release()
	s, sum := r.store, ""
	err = r.err
	if r.Rec != nil {
		r.Rec.End()
		err, sum = r.Rec.Err, r.Rec.Sum()
	}
	if isFull(err) { // for the next one
		s.makeRoom()
	}
	if err != nil {
		verdict.Unsaved(tl, err)
	}
	if r.Rec != nil {
		unsaved := saved.WriteTimeline(filepath.Join(s.dir, r.name), tl)
		if isFull(unsaved) && s.makeRoom() {
			unsaved = saved.WriteTimeline(filepath.Join(s.dir, r.name), tl)
		}
		if unsaved != nil {
			verdict.Unsaved(tl, unsaved)
		}
		err = errors.Join(err, unsaved)
	}
	lines := history.Of(tl, sum)
	err = errors.Join(err, s.remember(lines))
	if r.Rec != nil {
		s.mu.Lock()
		s.kept = append(s.kept, Kept{
			r.name, ended(lines[0]), s.size(r.name), tl.Verdict.Result, s.place != "", lines[0],
		})
		s.mu.Unlock()
	}
	s.prune(time.Now())
	return lines[0], err
}

// Has reports whether the directory has a line's run, or one that says as much of its Service at that time: two guards
// measure each disruption.
func (s *Store) Has(l history.Line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.kept, func(k Kept) bool { return k.Name == l.Run || k.line.Covers(&l) })
}

// isFull reports whether an error says that the disk has no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// makeRoom deletes a quarter of the runs of a disk that is smaller than the limits, or that others fill. It reports
// whether there was one to delete.
func (s *Store) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits, before := s.limits, len(s.kept)
	limits.Bytes = 0
	for _, r := range s.kept {
		limits.Bytes += r.Bytes
	}
	limits.Bytes = max(1, limits.Bytes*3/4)
	s.log.Warn("the disk is full, and takes less than --keep-size: older runs are deleted")
	s.remove(limits, time.Now())
	return len(s.kept) < before
}

// prune deletes the runs that exceed the limits.
func (s *Store) prune(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := s.limits
	if info, err := os.Stat(s.historyFile()); err == nil && limits.Bytes > 0 {
		limits.Bytes = max(1, limits.Bytes-info.Size())
	}
	s.remove(limits, now)
}

// remove deletes the runs that exceed limits. The caller holds mu.
func (s *Store) remove(limits Limits, now time.Time) {
	gone, waiting := map[string]bool{}, len(s.deleted)
	for _, name := range limits.Excess(s.kept, now) {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			s.log.Warn("a run could not be deleted", "run", name, "error", err)
			continue
		}
		if i := slices.IndexFunc(s.kept, func(k Kept) bool { return k.Name == name }); s.kept[i].Waits {
			s.deleted = append(s.deleted, name)
			s.log.Error("a run was deleted, for the limits of what is kept, before the bucket had it", "run", name)
		} else {
			s.log.Info("a run was deleted, for the limits of what is kept", "run", name)
		}
		gone[name] = true
	}
	kept := s.kept[:0]
	for _, r := range s.kept {
		if !gone[r.Name] {
			kept = append(kept, r)
		}
	}
	s.kept = kept
	if len(s.deleted) > waiting {
		if err := s.writeDeleted(); err != nil {
			s.log.Warn("the next guard will not know whose lines the bucket lacks", "error", err)
		}
	}
}
