package saved

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lapse/correlate"
	"lapse/internal/history"
	"lapse/internal/run/exit"
)

// HistoryFile holds the lines of runs, in a folder of runs.
const HistoryFile = "history.ndjson"

// ObservedFile holds the [history.Observed] of a guard, in its folder of runs.
const ObservedFile = "observed.json"

// ReadObserved returns what the guard of a folder of runs has observed, nothing if there was none.
func ReadObserved(dir string) (o history.Observed, err error) {
	text, err := os.ReadFile(filepath.Join(dir, ObservedFile))
	if errors.Is(err, os.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return history.Observed{}, fmt.Errorf("%s: %w", filepath.Join(dir, ObservedFile), err)
	}
	return o, nil
}

// WriteObserved replaces it. It is not synced: a day of which it is lost looks worse than it was, not better.
func WriteObserved(dir string, o history.Observed) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, ObservedFile)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// A History is the lines of a folder of runs.
type History struct {
	Lines  []history.Line
	CutOff []error // last lines of files that end before the line does: their writers were killed, or go on
	Unread []error // lines and runs that cannot be read
}

// ReadHistory returns the history of what is at path: a run, a folder of runs with its [HistoryFile] if it has one, or
// such a file. Runs are judged anew, as [Load] does, and come after the lines of the file.
func ReadHistory(path string) (h History, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return h, exit.Usagef(historyHint, "%w", err)
	}
	if info.Mode()&os.ModeDevice != 0 { // it may have no end
		return h, exit.Usagef(historyHint, "%s is a device", path)
	}
	file, runs := path, []string{}
	if info.IsDir() {
		file = filepath.Join(path, HistoryFile)
		for _, name := range Runs(path) {
			runs = append(runs, filepath.Join(path, name))
		}
	}
	if _, isRun := written(path); isRun {
		runs = append(runs, path)
	}
	if err := h.readFile(file); err != nil && (!info.IsDir() || !errors.Is(err, os.ErrNotExist)) {
		return h, exit.AsUsage(err)
	}
	for _, dir := range runs {
		h.readRun(dir)
	}
	if len(h.Lines) == 0 && len(h.Unread) == 0 {
		return h, exit.Usagef(historyHint, "%s holds no run", path)
	}
	return h, nil
}

const historyHint = "DIR is a folder of runs, such as runs, or one with a " + HistoryFile

func (h *History) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return h.Read(f, path)
}

// Read adds the lines of r, which is called name.
func (h *History) Read(r io.Reader, name string) error {
	lines, unread, err := history.Read(r)
	h.Lines = append(h.Lines, lines...)
	for _, u := range unread {
		err := fmt.Errorf("%s: %w", name, u)
		if u.CutOff {
			h.CutOff = append(h.CutOff, err)
		} else {
			h.Unread = append(h.Unread, err)
		}
	}
	return err
}

func (h *History) readRun(dir string) {
	tl, err := Load(dir, correlate.Options{}, nil)
	var sum string
	if err == nil {
		sum, err = RecordingSum(dir)
	}
	if err != nil {
		h.Unread = append(h.Unread, err)
		return
	}
	h.Lines = append(h.Lines, history.Of(tl, sum)...)
}

// RecordingSum returns the SHA-256 of a run's recording, in hexadecimal; "" if it is not kept.
func RecordingSum(dir string) (string, error) {
	for _, name := range []string{FactsFile, PartialFile} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return "", err
		}
		return hex.EncodeToString(sum.Sum(nil)), nil
	}
	return "", nil
}
