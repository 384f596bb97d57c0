package saved

import (
	"os"
	"path/filepath"
	"time"

	"lapse/internal/run/exit"
)

// Newest returns the directory of the run below dir that was written last.
func Newest(dir string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", exit.Usagef("name the DIR of a run", "no run was named, and there is no directory %s here", dir)
	}
	var newest string
	var last time.Time
	for _, name := range Runs(dir) {
		run := filepath.Join(dir, name)
		if at, _ := written(run); newest == "" || at.After(last) {
			newest, last = run, at
		}
	}
	if newest == "" {
		return "", exit.Usagef("name the DIR of a run", "no run was named, and %s holds none", dir)
	}
	return newest, nil
}

// Runs returns the names of the directories in dir that hold a run; none if dir is a run itself.
func Runs(dir string) (names []string) {
	if _, ok := written(dir); ok {
		return nil
	}
	entries, _ := os.ReadDir(dir) // none, if it is no directory
	for _, e := range entries {
		if _, ok := written(filepath.Join(dir, e.Name())); ok {
			names = append(names, e.Name())
		}
	}
	return names
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
