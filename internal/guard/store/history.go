package store

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lapse/internal/history"
	"lapse/internal/run/saved"
)

// How much the history may take: a quarter of what runs may, but enough for a trend. A line is some 600 bytes.
const (
	leastHistory = 1 << 20
	mostHistory  = 16 << 20
)

// history returns how many bytes the history may take.
func (l Limits) history() int64 {
	if l.Bytes == 0 {
		return mostHistory
	}
	return min(max(leastHistory, l.Bytes/4), mostHistory)
}

// History returns the lines of history, and an error if not all could be read.
func (s *Store) History() (lines []history.Line, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.historyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, unread, err := history.Read(f)
	for _, u := range unread {
		err = errors.Join(err, u)
	}
	return lines, err
}

// inHistory returns a function that reports whether a run is in the history, or was, before its oldest lines were
// dropped. Of a history that cannot be read it says so of each.
func (s *Store) inHistory() func(name string) bool {
	lines, err := s.History()
	oldest, names := "", map[string]bool{}
	for i, l := range lines {
		if names[l.Run] = true; i == 0 || l.Run < oldest {
			oldest = l.Run
		}
	}
	return func(name string) bool { return err != nil || names[name] || name < oldest }
}

func (s *Store) historyFile() string { return filepath.Join(s.dir, saved.HistoryFile) }

// remember appends a run to the history.
func (s *Store) remember(lines []history.Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := history.Append(s.historyFile(), lines...); err != nil {
		return err
	}
	if err := shorten(s.historyFile(), s.limits.history()); err != nil { // it is longer than it should be, and whole
		s.log.Warn("the oldest lines of the history cannot be dropped", "error", err)
	}
	return nil
}

// shorten drops the oldest lines of a file that has more than most bytes: three quarters of that are left, so that this
// is rare. The newest line always is.
func shorten(path string, most int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	rest := max(most/4*3, 2*history.MaxBytes)
	if err != nil || info.Size() <= max(most, rest) {
		return err
	}
	if _, err := f.Seek(-rest, io.SeekEnd); err != nil {
		return err
	}
	text := bufio.NewReader(f)
	if _, err := text.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) { // the end of a line
		return err
	}
	return saved.ReplaceFile(path, func(w io.Writer) error {
		_, err := io.Copy(w, text)
		return err
	})
}
