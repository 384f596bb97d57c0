package store

import (
	"fmt"
	"syscall"
	"testing"

	"lapse/internal/layer"
)

// On a disk that is smaller than the limits, new runs take the place of older ones.
func TestASmallDiskTakesTheNewestRuns(t *testing.T) {
	layer.Real(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("a small disk, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
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
