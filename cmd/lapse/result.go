package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lapse/correlate"
	"lapse/record"
	"lapse/report"
)

// Files of a run's directory.
const (
	factsFile    = "facts.lapse"
	timelineFile = "timeline.json"
)

// createDir makes the run's directory, which must not hold a run yet.
func createDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, factsFile)); err == nil {
		return refuse("give another --out", "%s already holds a run", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return refuse("give another --out", "the run's directory: %w", err)
	}
	return nil
}

// discard removes the directory of a run that did not come about, if nothing else is in it.
func discard(dir string) {
	os.Remove(filepath.Join(dir, factsFile))
	os.Remove(dir)
}

// writeTimeline writes the run's timeline.json, whole or not at all.
func writeTimeline(dir string, tl *correlate.Timeline) error {
	f, err := os.CreateTemp(dir, timelineFile+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", timelineFile, err)
	}
	defer os.Remove(f.Name()) // fails once renamed
	err = report.Formats["json"](f, tl, report.Options{})
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, timelineFile))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", timelineFile, err)
	}
	return nil
}

// deliver writes and prints a judged run, and returns its exit code as an error.
func deliver(stdout io.Writer, dir, format string, tl *correlate.Timeline) error {
	if err := errors.Join(writeTimeline(dir, tl), print(stdout, dir, format, tl)); err != nil {
		return err
	}
	return exitWith(tl.Verdict.ExitCode)
}

func print(w io.Writer, dir, format string, tl *correlate.Timeline) error {
	s := styleOf(w)
	return report.Formats[format](w, tl, report.Options{Color: s.color, Unicode: s.unicode, Width: s.width, RunDir: dir})
}

// load judges the saved run at path, a run's directory or its recording.
func load(path string, o correlate.Options, gateExprs []string) (*correlate.Timeline, error) {
	file := path
	if info, err := os.Stat(path); err != nil {
		return nil, refuse("a RUN is the directory `lapse run` wrote, such as runs/…", "%w", err)
	} else if info.IsDir() {
		file = filepath.Join(path, factsFile)
		if _, err := os.Stat(file); err != nil {
			return nil, refuse("a RUN is the directory `lapse run` wrote, such as runs/…", "%s is not a run: it holds no %s", path, factsFile)
		}
	}
	f, err := record.Open(file)
	if err != nil {
		return nil, refuse("a RUN is the directory `lapse run` wrote, such as runs/…", "%w", err)
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil && !errors.Is(err, record.ErrTruncated) && !errors.Is(err, record.ErrCorrupt) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	} // what is left of a cut or damaged recording is judged, and the run told to have been aborted
	tl, err := correlate.Analyze(run, o)
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", path, err)
	}
	if len(gateExprs) == 0 {
		gateExprs = run.Meta.Options.Gates
	}
	gates, err := parseGates(gateExprs)
	if err != nil {
		return nil, err
	}
	tl.Tool = tool()
	correlate.Judge(tl, gates)
	return tl, nil
}
