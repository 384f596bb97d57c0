// Package saved is a run on disk: its directory, which one process at a time may write, its recording and its
// judgement.
package saved

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/dashboard"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/report/document"
	"lapse/internal/report/export"
	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/internal/run/terminal"
	"lapse/timeline"
)

// Files of a run's directory.
const (
	FactsFile    = "facts.lapse"
	TimelineFile = "timeline.json"
	PartialFile  = "facts.partial.lapse" // the part of a recording that came, if the rest did not
)

// ClaimDir makes the run's directory and locks it: until release is called, or this process ends, no other lapse can
// write a run there. It refuses a directory that already has a run: nothing is overwritten.
func ClaimDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.Usagef("give another --out", "the run's directory: %w", err)
	}
	release, err = lockDir(dir)
	if errors.Is(err, errLocked) {
		return nil, exit.Usagef("wait until it has ended, or give another --out",
			"another lapse writes into %s", dir)
	}
	if err != nil {
		return nil, exit.Usagef("give another --out", "the run's directory: %w", err)
	}
	for _, name := range []string{FactsFile, TimelineFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			release()
			return nil, exit.Usagef("give another --out", "%s already holds a run: %s", dir, name)
		}
	}
	return release, nil
}

// errLocked says that another process has locked a directory.
var errLocked = errors.New("the directory is locked")

// BeginRecording claims the run's directory, and creates the recording in it. If that fails it leaves nothing behind.
func BeginRecording[R any](dir string, create func(path string) (R, error)) (rec R, release func(), err error) {
	release, err = ClaimDir(dir)
	if err != nil {
		return rec, nil, err
	}
	if rec, err = create(filepath.Join(dir, FactsFile)); err != nil {
		os.Remove(dir) // unless something else is in it
		release()
		return rec, nil, exit.Usagef("give another --out", "%w", err)
	}
	return rec, release, nil
}

// Discard removes the directory of a run that did not begin, if nothing else is in it.
func Discard(dir string) {
	os.Remove(filepath.Join(dir, FactsFile))
	os.Remove(dir)
}

// WriteTimeline writes the run's timeline.json, whole or not at all.
func WriteTimeline(dir string, tl *model.Timeline) error {
	return writeFile(filepath.Join(dir, TimelineFile), func(w io.Writer) error {
		return report.JSON(w, tl, report.Options{})
	})
}

// writeFile makes or replaces the file at path with what write writes, whole or not at all. When it returns, the file
// is on disk: it is synced before it gets its name, and its directory after.
func writeFile(path string, write func(io.Writer) error) error {
	if err := ReplaceFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// RenameFile renames a file within its directory, and syncs that, so that the name survives a crash of the
// machine.
func RenameFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// SyncFile makes a file durable. Tests replace it.
var SyncFile = (*os.File).Sync

// Deliver writes and prints a judged run, and returns its exit code as an error.
func Deliver(stdout io.Writer, dir string, as Output, tl *model.Timeline) error {
	return Present(stdout, dir, as, tl, Save(dir, tl))
}

// Save writes the run's timeline.json. If that fails, the verdict says so.
func Save(dir string, tl *model.Timeline) error {
	err := WriteTimeline(dir, tl)
	if err != nil {
		verdict.Unsaved(tl, err)
	}
	return err
}

// Present prints a judged run, and returns its exit code as an error. A file that could not be written makes the code
// 1 if it was 0.
func Present(stdout io.Writer, dir string, as Output, tl *model.Timeline, unwritten error) error {
	return exit.With(tl.Verdict.ExitCode, errors.Join(unwritten, Print(stdout, dir, as, tl)))
}

// An Output is how a judged run is printed.
type Output struct {
	Format  string // the name of one of [report.Formats]
	Verbose bool   // each window too, with its evidence and rivals
	Quiet   bool   // of a summary for a terminal the verdict alone
	Color   string // of a summary for a terminal: auto, always, never
}

// Check refuses words that say nothing, and a format that this environment does not allow.
func (o Output) Check() error {
	words := []string{"", terminal.ColorAuto, terminal.ColorAlways, terminal.ColorNever}
	if !slices.Contains(words, o.Color) {
		return exit.Usagef("auto, always or never", "unknown --color %q", o.Color)
	}
	if o.Quiet && o.Verbose {
		return exit.Usagef("leave one of them out", "--quiet and --verbose exclude each other")
	}
	if err := judging.CheckFormat(report.Formats, o.Format); err != nil {
		return err
	}
	f, _ := report.FormatNamed(report.Formats, o.Format)
	if f.Check == nil {
		return nil
	}
	return exit.AsUsage(f.Check(os.Getenv))
}

// Print prints the judged run that is kept at path, a run's directory or a file of it.
func Print(w io.Writer, path string, as Output, tl *model.Timeline) error {
	f, _ := report.FormatNamed(report.Formats, as.Format)
	if f.Facts {
		return Export(w, path, "", f)
	}
	s := terminal.StyleOf(w).Colored(as.Color)
	if !s.Terminal {
		s.Width = document.Unlimited // whoever reads it by grep gets whole sentences
	}
	return f.Write(w, report.Saved{Judged: tl}, report.Options{
		Verbose: as.Verbose,
		Quiet:   as.Quiet,
		Color:   s.Color,
		Unicode: s.Unicode,
		Width:   s.Width,
		RunDir:  kept(path),
		Page:    dashboard.Files(),
		Env:     os.Getenv,
	})
}

// kept returns path if there is a run, and "" if there is none: it could not be written, or was removed.
func kept(path string) string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return path
	}
	for _, name := range []string{FactsFile, TimelineFile, PartialFile} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return path
		}
	}
	return ""
}

// Export writes the facts of the saved run at path to the file out, whole or not at all, or to stdout if out is empty.
// Of a recording that is cut off or damaged it writes what comes before, and returns an error.
func Export(stdout io.Writer, path, out string, f report.Format) error {
	saved, err := openFacts(path, f)
	if err != nil {
		return err
	}
	defer saved.Close()
	broken := saved.Broken
	write := func(w io.Writer) error {
		err := f.Write(w, report.Saved{Facts: saved.Run}, report.Options{})
		if IsDamage(err) {
			broken, err = fmt.Errorf("what lies before: %w", err), nil
		}
		return err
	}
	if err := ToFile(stdout, out, write); err != nil || broken == nil {
		return err
	}
	return exit.Stopped("exported only %w", broken)
}

// ToFile lets write fill the file out, whole or not at all, or stdout if out is empty.
func ToFile(stdout io.Writer, out string, write func(io.Writer) error) error {
	if out == "" {
		return write(stdout)
	}
	if err := input.CheckWritable("--out", out); err != nil {
		return exit.AsUsage(err)
	}
	return writeFile(out, write)
}

// openFacts opens the saved run at path. If only its timeline.json is left, the facts are those that it contains.
func openFacts(path string, f report.Format) (Saved, error) {
	file, ok := timelineOnly(path)
	if !ok {
		saved, err := Open(path)
		if saved.Broken != nil {
			saved.Broken = fmt.Errorf("what lies before: %w", saved.Broken)
		}
		return saved, err
	}
	tl, err := openTimeline(file)
	if err != nil {
		return Saved{}, err
	}
	if f.Left == nil {
		return Saved{}, exit.Usagef("-o csv and -o events write what it holds",
			"-o %s needs the run's recording, %s: %s does not hold it", f.Name, FactsFile, file)
	}
	less := fmt.Errorf("%s: %s holds no more, and its recording is not here", f.Left(tl), file)
	return Saved{Run: export.Facts(tl), Broken: less}, nil
}

// Load judges the saved run at path, a run's directory or its recording. If only its timeline.json is left it returns
// that: only gates can be judged again.
func Load(path string, o correlate.Options, gateExprs []string) (*model.Timeline, error) {
	if file, ok := timelineOnly(path); ok {
		return loadTimeline(file, o, gateExprs)
	}
	saved, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	tl, err := correlate.Analyze(saved.Run, o)
	switch {
	case err != nil && saved.Broken != nil && !errors.Is(saved.Broken, record.ErrCorrupt) && saved.Meta.T0.IsZero():
		return nil, exit.Stopped("%s holds no facts: Lapse was killed before it had written the first, "+
			"after a second, or has just begun", path)
	case err != nil:
		return nil, fmt.Errorf("judge %s: %w", path, err)
	}
	if len(gateExprs) == 0 {
		gateExprs = saved.Meta.Options.Gates
	}
	gates, err := judging.ParseGates(gateExprs)
	if err != nil {
		return nil, err
	}
	tl.Tool = judging.Tool()
	verdict.Judge(tl, gates)
	return tl, nil
}

const dirHint = "DIR is the directory that `lapse run` or `lapse retrieve` wrote, such as runs/…, or its timeline.json"

// timelineOnly returns the timeline.json of the saved run at path if there is nothing else: path is that file, or a
// directory without a recording, as `lapse retrieve` writes one from a Pod's log.
func timelineOnly(path string) (file string, ok bool) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || filepath.Ext(path) == ".json" {
		return path, filepath.Ext(path) == ".json"
	}
	if _, err := os.Stat(filepath.Join(path, FactsFile)); err == nil {
		return "", false
	}
	file = filepath.Join(path, TimelineFile)
	_, err = os.Stat(file)
	return file, err == nil
}

// loadTimeline reads a judged run. To judge it by other options takes its recording.
func loadTimeline(file string, o correlate.Options, gateExprs []string) (*model.Timeline, error) {
	if o != (correlate.Options{}) {
		return nil, exit.Usagef("without these flags it is shown as it was judged; --fail-if can be given",
			"%s: a run cannot be judged by other options without its recording, %s", file, FactsFile)
	}
	tl, err := openTimeline(file)
	if err != nil || len(gateExprs) == 0 {
		return tl, err
	}
	gates, err := judging.ParseGates(gateExprs)
	if err != nil {
		return nil, err
	}
	verdict.Judge(tl, gates)
	return tl, nil
}

// openTimeline reads a timeline.json.
func openTimeline(file string) (*model.Timeline, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, exit.Usagef(dirHint, "not a run: %w", err)
	}
	defer f.Close()
	tl, err := report.ReadJSON(f)
	if err != nil {
		return nil, exit.Usagef(dirHint, "%s: %w", file, err)
	}
	return tl, nil
}

// A Saved is a run on disk, open for reading. Of a recording that is cut off or damaged it has what comes before, and
// its batches end with the error.
type Saved struct {
	timeline.Run
	file   *record.File // nil: there is no recording
	Broken error        // why the recording is not whole, or nil
}

func (s Saved) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Open opens the saved run at path, a run's directory or its recording.
func Open(path string) (Saved, error) {
	file := path
	if info, err := os.Stat(path); err != nil {
		return Saved{}, exit.Usagef(dirHint, "%w", err)
	} else if info.IsDir() {
		file = filepath.Join(path, FactsFile)
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(path, PartialFile)
		}
		if _, err := os.Stat(file); err != nil {
			return Saved{}, exit.Usagef(dirHint,
				"%s is not a run: it holds neither %s nor %s", path, FactsFile, TimelineFile)
		}
	}
	f, err := record.Open(file)
	if e, ok := errors.AsType[*record.FileError](err); ok && e.OtherVersion() {
		return Saved{}, err
	}
	if err != nil {
		return Saved{}, exit.Usagef(cmp.Or(hint.Of(err), dirHint), "%w", err)
	}
	run, err := f.Run()
	switch {
	case IsDamage(err):
		run.Batches = endingWith(run.Batches, err)
	case err != nil:
		return Saved{}, errors.Join(fmt.Errorf("read %s: %w", file, err), f.Close())
	case !hasEnd(run):
		err = fmt.Errorf("%s: the recording ends before the run did", file)
	}
	return Saved{Run: run, file: f, Broken: err}, nil
}

// IsDamage reports whether err says that a recording is cut off or damaged.
func IsDamage(err error) bool {
	return errors.Is(err, record.ErrTruncated) || errors.Is(err, record.ErrCorrupt)
}

// hasEnd reports whether a run's end is on record. If not, its writer was killed, its disk was full, or it goes on. A
// recording that breaks off between two blocks does not show it otherwise.
func hasEnd(run timeline.Run) bool {
	return slices.ContainsFunc(run.Events, func(e timeline.Event) bool {
		return e.Enters(timeline.PhaseEnded)
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
