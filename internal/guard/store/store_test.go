package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/history"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// keep keeps a run of a second, in which all went well.
func keep(t *testing.T, s *Store, id string) *model.Timeline {
	t.Helper()
	r := s.Begin(id)
	tl := run(r, id)
	if _, err := r.End(tl); err != nil && r.Rec != nil {
		t.Fatal(err)
	}
	return tl
}

// run records such a run, and returns it judged.
func run(r *Run, id string) *model.Timeline {
	tracker := correlate.NewTracker(correlate.Options{})
	well := timeline.Batch{Source: 1, Watermarks: []timeline.Watermark{{Target: 1, Due: time.Second}}}
	for due := time.Duration(0); due < time.Second; due += 10 * time.Millisecond {
		well.Requests = append(well.Requests, timeline.Request{Target: 1, Seq: uint64(len(well.Requests)), Due: due, Sent: due, Done: due + time.Millisecond})
	}
	for _, f := range []timeline.Fact{
		timeline.Meta{ID: id, T0: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), Options: timeline.Options{Join: time.Second}},
		timeline.Source{ID: 1, Name: "here"},
		timeline.Target{ID: 1, Source: 1, Name: "new", Kind: timeline.New, URL: "http://127.0.0.1:1/", Rate: 100},
		well,
		timeline.PhaseChange(time.Second, timeline.PhaseMeasuring, timeline.PhaseEnded, ""),
	} {
		if e, ok := f.(timeline.Event); ok {
			e.ID, e.Source = 1, 1
			f = e
		}
		if tracker.Add(f); r.Rec != nil {
			r.Rec.Fact(f)
		}
	}
	if r.Rec != nil {
		r.Rec.FlushDue(time.Second)
	}
	tl := tracker.Last()
	verdict.Judge(tl, nil)
	return tl
}

// open opens a directory, until the end of the test or until it is closed.
func open(t *testing.T, dir string, limits Limits) (*Store, []string) {
	t.Helper()
	var found []string
	s, err := Open(dir, limits, slog.New(slog.DiscardHandler), func(tl *model.Timeline, now bool) {
		if found = append(found, tl.Run.ID); now {
			found = append(found, "judged now")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, found
}

// A run is kept as any other, has a line of history, and is found by the next guard.
func TestARunIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	s, found := open(t, dir, Limits{})
	if len(found) > 0 {
		t.Errorf("found %q", found)
	}
	keep(t, s, "lapse-1")
	keep(t, s, "lapse-2")
	if _, err := saved.Load(filepath.Join(dir, "lapse-1"), correlate.Options{}, nil); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"recording":"`) {
		t.Errorf("%v\n%s", err, text)
	}
	s.Close()
	if _, found := open(t, dir, Limits{}); strings.Join(found, " ") != "lapse-1 lapse-2" {
		t.Errorf("found %q", found)
	}
}

// What exceeds the limits is deleted from the disk, and stays in the history.
func TestWhatExceedsTheLimitsIsDeleted(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{Bytes: 1})
	keep(t, s, "lapse-1")
	keep(t, s, "lapse-2")
	if names := saved.Runs(dir); strings.Join(names, " ") != "lapse-2" {
		t.Errorf("%q are left", names)
	}
	text, _ := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
	if !strings.Contains(string(text), "lapse-1") {
		t.Errorf("the history lost it: %s", text)
	}
}

// The history is bounded, too, and counts as the runs do: the oldest lines are dropped, and what is left are whole lines
// with the newest one.
func TestTheOldestLinesOfALongHistoryAreDropped(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{Bytes: leastHistory})
	keep(t, s, "lapse-1")
	file := filepath.Join(dir, saved.HistoryFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var long strings.Builder
	for n := 0; long.Len() <= leastHistory-2*len(text); n++ {
		long.WriteString(strings.Replace(string(text), "lapse-1", fmt.Sprint("lapse-", 1000+n), 1))
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	keep(t, s, "lapse-2")
	if h, err := s.History(); err != nil || h[0].Run != "lapse-1000" {
		t.Fatalf("it was not too long, and %v, %v", h[0], err)
	}
	keep(t, s, "lapse-3")
	h, err := s.History()
	if err != nil || h[0].Run == "lapse-1000" || h[len(h)-1].Run != "lapse-3" || h[len(h)-3].Run < "lapse-2" {
		t.Errorf("%d lines, from %s to %s, %v", len(h), h[0].Run, h[len(h)-1].Run, err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > leastHistory*3/4 || info.Size() < leastHistory*3/4-2000 {
		t.Errorf("%d bytes are left, %v", info.Size(), err)
	}
	s.Limit(Limits{Bytes: leastHistory / 2}) // as much as many runs take, and less than the history
	keep(t, s, "lapse-4")
	if names := saved.Runs(dir); strings.Join(names, " ") != "lapse-4" {
		t.Errorf("%q are left beside a history of the whole size", names)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// The newest line stays, however little the history may take.
func TestTheNewestLineIsNeverDropped(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	keep(t, s, "lapse-1")
	file := filepath.Join(dir, saved.HistoryFile)
	for range 2 {
		if err := shorten(file, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file+".junk", []byte(strings.Repeat("x", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := s.History()
	if err != nil || len(h) != 1 {
		t.Fatalf("%v, %v", h, err)
	}
	if err := history.Append(file+".junk", h...); err != nil {
		t.Fatal(err)
	}
	if err := shorten(file+".junk", 1); err != nil {
		t.Fatal(err)
	}
	if h, err := saved.ReadHistory(file + ".junk"); err != nil || len(h.Lines) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// A line that a killed guard cut off costs only itself.
func TestALineThatWasCutOffCostsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, saved.HistoryFile)
	if err := os.WriteFile(file, []byte(`{"history":1,"run":"lap`), 0o644); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, dir, Limits{})
	keep(t, s, "lapse-1")
	text, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], `"run":"lapse-1"`) {
		t.Errorf("%q", lines)
	}
}

// Without a place for its recording a run is judged, and says that it is not on disk.
func TestARunWithoutAPlaceIsJudged(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	if err := os.WriteFile(filepath.Join(dir, "lapse-1"), nil, 0o644); err != nil { // where its directory would be
		t.Fatal(err)
	}
	if tl := keep(t, s, "lapse-1"); tl.Run.Unsaved == "" || tl.Verdict.ExitCode != verdict.ExitUnsaved {
		t.Errorf("unsaved %q, exit code %d", tl.Run.Unsaved, tl.Verdict.ExitCode)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, saved.HistoryFile)); !strings.Contains(string(text), "lapse-1") {
		t.Error("the history does not have it")
	}
}

// What a killed guard has recorded and not judged is judged by the next, once, and has its line of history.
func TestWhatAKilledGuardLeftIsJudged(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	run(s.Begin("lapse-1"), "lapse-1")
	for _, want := range [][]string{{"lapse-1", "judged now"}, {"lapse-1"}} {
		s.Close()
		var found []string
		if s, found = open(t, dir, Limits{}); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
	if _, err := os.Stat(filepath.Join(dir, "lapse-1", saved.TimelineFile)); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v, and the history\n%s", err, text)
	}
}

// A guard that is started in the directory of another one is refused, before it touches the run that goes on.
func TestASecondGuardLeavesARunThatGoesOnAlone(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	run(s.Begin("lapse-1"), "lapse-1")
	_, err := Open(dir, Limits{}, slog.New(slog.DiscardHandler), func(tl *model.Timeline, _ bool) {
		t.Errorf("it found %s", tl.Run.ID)
	})
	if err == nil || !strings.Contains(err.Error(), "another lapse writes into "+dir) {
		t.Errorf("the error is %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", saved.TimelineFile)); len(left) > 0 {
		t.Errorf("it wrote %q", left)
	}
	s.Close()
	open(t, dir, Limits{})
}

// Runs that no guard has made, judged or not, are neither judged nor found nor deleted.
func TestRunsOfOthersStayAsTheyAre(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s, _ := open(t, other, Limits{})
	keep(t, s, "lapse-0")
	run(s.Begin("lapse-1"), "lapse-1")
	for _, name := range []string{"lapse-0/facts.lapse", "lapse-0/timeline.json", "lapse-1/facts.lapse"} { // as `lapse run` writes
		text, err := os.ReadFile(filepath.Join(other, name))
		if err := errors.Join(err, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(dir, name), text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s, found := open(t, dir, Limits{Bytes: 1})
	if found != nil {
		t.Errorf("found %q", found)
	}
	keep(t, s, "lapse-2")
	left, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if want := "lapse-0/facts.lapse lapse-0/timeline.json lapse-1/facts.lapse lapse-2/facts.lapse"; !strings.HasPrefix(strings.ReplaceAll(strings.Join(left, " "), dir+"/", ""), want) {
		t.Errorf("%q are left", left)
	}
	if h, err := s.History(); err != nil || len(h) != 1 {
		t.Errorf("the history is %v, %v", h, err)
	}
}

// A guard that was killed between a run's judgement and its line of history is made up for by the next. Runs whose lines
// were dropped, as the oldest, are not.
func TestALineThatAKilledGuardDidNotWriteIsWritten(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	for _, name := range []string{"lapse-1", "lapse-2", "lapse-3"} {
		keep(t, s, name)
	}
	file := filepath.Join(dir, saved.HistoryFile)
	text, _ := os.ReadFile(file)
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(file, []byte(lines[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.Close()
		s, _ = open(t, dir, Limits{})
		if text, _ := os.ReadFile(file); string(text) != lines[1]+lines[2] {
			t.Errorf("the history is\n%s, want\n%s%s", text, lines[1], lines[2])
		}
	}
}

// What of a recording did not get on disk is told, though all else did.
func TestARecordingThatIsNotWholeIsTold(t *testing.T) {
	s, _ := open(t, t.TempDir(), Limits{})
	r := s.Begin("lapse-1")
	tl := run(r, "lapse-1")
	r.Rec.Err = errors.New("no space left")
	if _, err := r.End(tl); !errors.Is(err, r.Rec.Err) || tl.Run.Unsaved != "no space left" {
		t.Errorf("the error is %v, unsaved %q", err, tl.Run.Unsaved)
	}
}

// A run is as old as its disruption, not as the note that it is kept elsewhere.
func TestARunThatIsKeptElsewhereGetsNoYounger(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	s.KeepIn("s3://runs/")
	r := s.Begin("lapse-1")
	tl := run(r, "lapse-1")
	tl.T0 = time.Now().AddDate(0, 0, -40)
	if _, err := r.End(tl); err != nil {
		t.Fatal(err)
	}
	run(s.Begin("lapse-2"), "lapse-2")
	broken := filepath.Join(dir, "lapse-2", saved.TimelineFile) // it cannot be read
	if err := os.WriteFile(broken, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"facts.lapse", saved.TimelineFile} {
		if err := os.Chtimes(filepath.Join(dir, "lapse-2", name), tl.T0, tl.T0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kept("lapse-1"); err != nil { // writes it down now
		t.Fatal(err)
	}
	s.Close()
	s, _ = open(t, dir, Limits{Age: 30 * 24 * time.Hour})
	r = s.Begin("lapse-3")
	tl = run(r, "lapse-3")
	tl.T0 = time.Now()
	if _, err := r.End(tl); err != nil {
		t.Fatal(err)
	}
	if names := saved.Runs(dir); strings.Join(names, " ") != "lapse-3" {
		t.Errorf("%q are left", names)
	}
}

// A run that is kept elsewhere makes room for an older one that is not.
func TestWhatIsElsewhereMakesRoom(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, Limits{})
	if waiting := s.KeepIn("s3://runs/"); waiting != nil {
		t.Errorf("%+v", waiting)
	}
	keep(t, s, "lapse-1")
	keep(t, s, "lapse-2")
	if err := s.Kept("lapse-2"); err != nil {
		t.Fatal(err)
	}
	lines, err := os.Stat(filepath.Join(dir, saved.HistoryFile))
	if err != nil {
		t.Fatal(err)
	}
	s.Limit(Limits{Bytes: 2*s.size("lapse-1") + 2*lines.Size()}) // room for two runs and the history
	keep(t, s, "lapse-3")
	if names := saved.Runs(dir); strings.Join(names, " ") != "lapse-1 lapse-3" {
		t.Errorf("%q are left", names)
	}
	for _, what := range []string{"the history", "no history: a guard that is killed may not have written it"} {
		s.Close()
		s, _ = open(t, dir, Limits{})
		if waiting := s.KeepIn("s3://runs/"); len(waiting) != 2 || waiting[0].Run != "lapse-1" {
			t.Errorf("with %s, %+v wait", what, waiting)
		}
		_ = os.Remove(filepath.Join(dir, saved.HistoryFile))
	}
}
