package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
	"lapse/internal/layer"
)

// On a disk that is smaller than the limits, new runs take the place of older ones.
func TestASmallDiskTakesTheNewestRuns(t *testing.T) {
	dir := smallDisk(t, "256k")
	s, _ := open(t, dir, Limits{Bytes: 1 << 30})
	const all = 100
	refused, last := 0, 0
	for n := range all {
		id := fmt.Sprintf("lapse-%03d", n)
		r := s.Begin(id)
		if _, err := r.End(run(r, id)); err != nil {
			refused++
		} else {
			last = n
		}
	}
	if refused == 0 || refused > all/4 || last < all-5 {
		t.Errorf("%d of %d runs are not kept, the last that is has number %d", refused, all, last)
	}
}

// A line of history for which there is no room leaves nothing of itself.
func TestAFullDiskTakesNoPartOfALine(t *testing.T) {
	file := filepath.Join(smallDisk(t, "8k"), "history.ndjson")
	text, whole := new(bytes.Buffer), 0
	for {
		began := time.Date(2026, 11, 27, 0, 0, whole, 0, time.UTC)
		tl := &model.Timeline{T0: began, Run: model.RunInfo{ID: "lapse-1"}, Verdict: model.Verdict{Result: model.Pass}}
		line := history.Of(tl, "")
		if err := history.Append(file, line...); isFull(err) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := history.Write(text, line...); err != nil {
			t.Fatal(err)
		}
		whole++
	}
	if got, err := os.ReadFile(file); err != nil || whole == 0 || string(got) != text.String() {
		t.Errorf("%v; after %d whole lines the file is\n%s", err, whole, got)
	}
}

// smallDisk returns a directory that takes so many bytes, in the words of tmpfs.
func smallDisk(t *testing.T, size string) string {
	layer.Real(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("a small disk, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
