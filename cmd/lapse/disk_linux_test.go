package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk with so much room, which goes with the namespace the test is alone in.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill uses up what room is left on the disk that dir is on.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
}

// A run that could not begin its recording used to leave an empty one, which refused the next run there.
func TestRunOnAFullDiskLeavesNothing(t *testing.T) {
	if !alone(t) {
		return
	}
	disk := smallDisk(t, "64k")
	fill(t, disk)
	dir := filepath.Join(disk, "run")
	var stdout, stderr bytes.Buffer
	code := lapse(t.Context(), []string{"lapse", "run", "http://127.0.0.1:1/", "--duration", "100ms", "--out", dir}, &stdout, &stderr)
	if code != exitUsage || !strings.Contains(stderr.String(), "no space left on device") || !strings.Contains(stderr.String(), "hint: give another --out") {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the run's directory is still there: %v", err)
	}
}
