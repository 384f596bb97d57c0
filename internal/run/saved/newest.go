package saved

import (
	"os"
	"path/filepath"
	"time"

	"lapse/internal/run/exit"
)

// Newest returns the directory of the run below dir that was written last.
func Newest(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", exit.Usagef("name the DIR of a run", "no run was named, and there is no directory %s here", dir)
	}
	var newest string
	var last time.Time
	for _, e := range entries {
		run := filepath.Join(dir, e.Name())
		if at, ok := written(run); ok && (newest == "" || at.After(last)) {
			newest, last = run, at
		}
	}
	if newest == "" {
		return "", exit.Usagef("name the DIR of a run", "no run was named, and %s holds none", dir)
	}
	return newest, nil
}

// written returns when a run's directory was written to last; ok is false if it holds no run.
func written(run string) (at time.Time, ok bool) {
	for _, name := range []string{FactsFile, TimelineFile, PartialFile} {
		if info, err := os.Stat(filepath.Join(run, name)); err == nil && (!ok || info.ModTime().After(at)) {
			at, ok = info.ModTime(), true
		}
	}
	return at, ok
}
