package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/dashboard"
	"lapse/record"
	"lapse/report"
	"lapse/timeline"
)

// Files of a run's directory.
const (
	factsFile    = "facts.lapse"
	timelineFile = "timeline.json"
	partialFile  = "facts.partial.lapse" // as much of the recording as came, where the rest did not
)

// createDir makes the run's directory. It must hold neither file of a run yet: nothing there is overwritten.
func createDir(dir string) error {
	for _, name := range []string{factsFile, timelineFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return refuse("give another --out", "%s already holds a run: %s", dir, name)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return refuse("give another --out", "the run's directory: %w", err)
	}
	return nil
}

// beginRecording makes the run's directory, and in it the recording, as create makes one. Where that fails it leaves nothing behind.
func beginRecording[R any](dir string, create func(path string) (R, error)) (rec R, err error) {
	if err := createDir(dir); err != nil {
		return rec, err
	}
	if rec, err = create(filepath.Join(dir, factsFile)); err != nil {
		os.Remove(dir) // unless something else is in it
		return rec, refuse("give another --out", "%w", err)
	}
	return rec, nil
}

// discard removes the directory of a run that did not come about, if nothing else is in it.
func discard(dir string) {
	os.Remove(filepath.Join(dir, factsFile))
	os.Remove(dir)
}

// writeTimeline writes the run's timeline.json, whole or not at all.
func writeTimeline(dir string, tl *model.Timeline) error {
	return writeFile(filepath.Join(dir, timelineFile), func(w io.Writer) error {
		return report.Formats["json"](w, tl, report.Options{})
	})
}

// writeFile makes or replaces the file at path with what write writes, whole or not at all. What it says is written is on disk:
// the file is synced before it gets its name, and its directory after.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer os.Remove(f.Name()) // fails once renamed
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = syncFile(f)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = renameFile(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// renameFile renames a file within its directory, and syncs that, so that the new name survives a crash of the machine.
func renameFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syncFile(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err // EINVAL: a file system that cannot sync a directory
	}
	return nil
}

// syncFile is what makes a file durable; a test looks over its shoulder.
var syncFile = (*os.File).Sync

// deliver writes and prints a judged run, and returns its exit code as an error.
func deliver(stdout io.Writer, dir, format string, tl *model.Timeline) error {
	return present(stdout, dir, format, tl, saveTimeline(dir, tl))
}

// saveTimeline writes the run's timeline.json. If that fails the run is marked so.
func saveTimeline(dir string, tl *model.Timeline) error {
	err := writeTimeline(dir, tl)
	if err != nil {
		verdict.Unsaved(tl, err)
	}
	return err
}

// present prints a judged run, and returns its exit code as an error. What could not be written makes it 1 at most: a gate that
// failed has failed.
func present(stdout io.Writer, dir, format string, tl *model.Timeline, unwritten error) error {
	return exitWith(tl.Verdict.ExitCode, errors.Join(unwritten, print(stdout, dir, format, tl)))
}

func print(w io.Writer, dir, format string, tl *model.Timeline) error {
	s := styleOf(w)
	return report.Formats[format](w, tl, report.Options{Color: s.color, Unicode: s.unicode, Width: s.width, RunDir: dir, Page: dashboard.Files()})
}

// load judges the saved run at path, a run's directory or its recording. Where only its timeline.json is left it
// returns that, judged as it was: only gates can be judged anew.
func load(path string, o correlate.Options, gateExprs []string) (*model.Timeline, error) {
	if file, ok := timelineOnly(path); ok {
		return loadTimeline(file, o, gateExprs)
	}
	saved, err := openRun(path)
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	tl, err := correlate.Analyze(saved.Run, o)
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", path, err)
	}
	if len(gateExprs) == 0 {
		gateExprs = saved.Meta.Options.Gates
	}
	gates, err := parseGates(gateExprs)
	if err != nil {
		return nil, err
	}
	tl.Tool = tool()
	verdict.Judge(tl, gates)
	return tl, nil
}

const runHint = "a RUN is the directory `lapse run` or `lapse retrieve` wrote, such as runs/…, or its timeline.json"

// timelineOnly returns the timeline.json of the saved run at path if that is all there is of it: path is that file, or a
// directory without a recording, as `lapse retrieve` writes one from a Pod's log.
func timelineOnly(path string) (file string, ok bool) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || filepath.Ext(path) == ".json" {
		return path, filepath.Ext(path) == ".json"
	}
	if _, err := os.Stat(filepath.Join(path, factsFile)); err == nil {
		return "", false
	}
	file = filepath.Join(path, timelineFile)
	_, err = os.Stat(file)
	return file, err == nil
}

// loadTimeline reads a judged run. Other options than it was judged by need its recording.
func loadTimeline(file string, o correlate.Options, gateExprs []string) (*model.Timeline, error) {
	if o != (correlate.Options{}) {
		return nil, refuse("without these flags it is shown as it was judged; --fail-if can be given",
			"%s: a run cannot be judged by other options without its recording, %s", file, factsFile)
	}
	tl, err := openTimeline(file)
	if err != nil || len(gateExprs) == 0 {
		return tl, err
	}
	gates, err := parseGates(gateExprs)
	if err != nil {
		return nil, err
	}
	verdict.Judge(tl, gates)
	return tl, nil
}

func openTimeline(file string) (*model.Timeline, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, refuse(runHint, "not a run: %w", err)
	}
	defer f.Close()
	tl, err := report.ReadJSON(f)
	if err != nil {
		return nil, refuse(runHint, "%s: %w", file, err)
	}
	return tl, nil
}

// A savedRun is a run on disk, open for reading.
type savedRun struct {
	timeline.Run              // of a recording that is cut off or damaged what lies before; its batches end with the error that says so
	file         *record.File // nil where there is no recording
	broken       error        // why the recording is not whole, or nil
}

func (s savedRun) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// openRun opens the saved run at path, a run's directory or its recording.
func openRun(path string) (savedRun, error) {
	file := path
	if info, err := os.Stat(path); err != nil {
		return savedRun{}, refuse(runHint, "%w", err)
	} else if info.IsDir() {
		file = filepath.Join(path, factsFile)
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(path, partialFile) // what came of a run, where the rest did not
		}
		if _, err := os.Stat(file); err != nil {
			return savedRun{}, refuse(runHint, "%s is not a run: it holds neither %s nor %s", path, factsFile, timelineFile)
		}
	}
	f, err := record.Open(file)
	if e, ok := errors.AsType[*record.FileError](err); ok && e.OtherVersion() {
		return savedRun{}, err
	}
	if err != nil {
		return savedRun{}, refuse(cmp.Or(hintOf(err), runHint), "%w", err)
	}
	run, err := f.Run()
	switch {
	case isDamage(err):
		run.Batches = endingWith(run.Batches, err)
	case err != nil:
		return savedRun{}, errors.Join(fmt.Errorf("read %s: %w", file, err), f.Close())
	case !ended(run):
		err = fmt.Errorf("%s: the recording ends before the run did", file)
	}
	return savedRun{Run: run, file: f, broken: err}, nil
}

func isDamage(err error) bool {
	return errors.Is(err, record.ErrTruncated) || errors.Is(err, record.ErrCorrupt)
}

// ended reports whether a run's end is on record. If not, its writer was killed, its disk was full, or it goes on:
// a recording that breaks off between two blocks does not look it.
func ended(run timeline.Run) bool {
	return slices.ContainsFunc(run.Events, func(e timeline.Event) bool {
		return e.Kind == timeline.RunPhase && e.To == phaseEnded
	})
}

// endingWith yields all batches, and then an error.
func endingWith(batches iter.Seq2[timeline.Batch, error], end error) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		for b, err := range batches {
			if !yield(b, err) || err != nil {
				return
			}
		}
		yield(timeline.Batch{}, end)
	}
}
