package store

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lapse/internal/history"
	"lapse/internal/run/saved"
)

// placeFile says, in the directory of each run of a guard, where else the run is kept. It is empty if that is nowhere.
const placeFile = "kept-in"

// waitingFile names the runs that were deleted before they were where runs are kept, too: their lines are to get there.
const waitingFile = "waiting-lines"

// KeepIn says where else runs are kept from now on, and returns the lines of those that are not known to be there, as
// [Store.Waiting] does.
func (s *Store) KeepIn(place string) (waiting []history.Line) {
	deleted, _ := os.ReadFile(filepath.Join(s.dir, waitingFile))
	s.mu.Lock()
	s.place, s.deleted = place, strings.Fields(string(deleted))
	for i := range s.kept {
		k := &s.kept[i]
		there, _ := os.ReadFile(filepath.Join(s.dir, k.Name, placeFile))
		k.Waits = string(there) != place
	}
	s.mu.Unlock()
	return s.Waiting()
}

// Waiting returns the lines of the runs that are to be kept elsewhere, and are not yet: of those that were deleted
// first, and the older ones before the newer.
func (s *Store) Waiting() (waiting []history.Line) {
	all, err := s.History()
	if err != nil {
		s.log.Warn("the history is not whole", "error", err)
	}
	lines := map[string]history.Line{}
	for _, l := range all {
		lines[l.Run] = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.deleted {
		if line, ok := lines[name]; ok {
			waiting = append(waiting, line)
		}
	}
	for i := range s.kept {
		k := &s.kept[i]
		line, ok := lines[k.Name]
		if !ok {
			line = k.line // a guard that was killed may not have appended it
		}
		if k.Waits = k.Waits && line.Run != ""; k.Waits { // else it cannot be read
			waiting = append(waiting, line)
		}
	}
	return waiting
}

// Kept notes that a run, or the line of one that was deleted, is where runs are kept, too.
func (s *Store) Kept(run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.kept, func(k Kept) bool { return k.Name == run }); i >= 0 {
		s.kept[i].Waits = false
		return os.WriteFile(filepath.Join(s.dir, run, placeFile), []byte(s.place), 0o644)
	}
	i := slices.Index(s.deleted, run)
	if i < 0 {
		return nil
	}
	s.deleted = slices.Delete(s.deleted, i, i+1)
	return s.writeDeleted()
}

// writeDeleted writes down which deleted runs have lines that wait. The caller holds mu.
func (s *Store) writeDeleted() error {
	return saved.ReplaceFile(filepath.Join(s.dir, waitingFile), func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(s.deleted, "\n"))
		return err
	})
}

// Open opens a file of a run. An error is os.ErrNotExist if there is none, or if the run was deleted.
func (s *Store) Open(run, file string) (*os.File, error) {
	return os.Open(filepath.Join(s.dir, run, file))
}
