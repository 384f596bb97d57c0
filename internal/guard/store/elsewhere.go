package store

import (
	"os"
	"path/filepath"
	"slices"

	"lapse/internal/history"
)

// placeFile says, in the directory of each run of a guard, where else the run is kept. It is empty if that is nowhere.
const placeFile = "kept-in"

// KeepIn says where else runs are kept from now on, and returns the lines of those that are not known to be there, the
// oldest first.
func (s *Store) KeepIn(place string) (waiting []history.Line) {
	lines, err := s.History()
	if err != nil {
		s.log.Warn("the history is not whole", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place = place
	for i := range s.kept {
		k := &s.kept[i]
		if there, _ := os.ReadFile(filepath.Join(s.dir, k.Name, placeFile)); string(there) == place {
			continue
		}
		line := k.line // a guard that was killed may not have appended it
		if at := slices.IndexFunc(lines, func(l history.Line) bool { return l.Run == k.Name }); at >= 0 {
			line = lines[at]
		}
		if k.Waits = line.Run != ""; k.Waits { // else it cannot be read
			waiting = append(waiting, line)
		}
	}
	return waiting
}

// Kept notes that a run is where runs are kept, too. A run that was deleted meanwhile is none.
func (s *Store) Kept(run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.kept, func(k Kept) bool { return k.Name == run })
	if i < 0 {
		return nil
	}
	s.kept[i].Waits = false
	return os.WriteFile(filepath.Join(s.dir, run, placeFile), []byte(s.place), 0o644)
}

// Open opens a file of a run. An error is os.ErrNotExist if there is none, or if the run was deleted.
func (s *Store) Open(run, file string) (*os.File, error) {
	return os.Open(filepath.Join(s.dir, run, file))
}
