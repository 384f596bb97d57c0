package integration

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/exit"
	"lapse/internal/run/runtest"
)

// smallDisk mounts a disk of a size, which goes with the namespace that the test is alone in.
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
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	disk := smallDisk(t, "64k")
	fill(t, disk)
	dir := filepath.Join(disk, "run")
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{"lapse", "run", "http://127.0.0.1:1/", "--duration", "100ms", "--out", dir}, &stdout, &stderr)
	if code != exit.Usage || !strings.Contains(stderr.String(), "no space left on device") || !strings.Contains(stderr.String(), "hint: give another --out") {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the run's directory is still there: %v", err)
	}
}

// The disk fills up while the command runs. What was measured is judged, and a pipeline sees the gate.
func TestFullDiskHidesNoVerdict(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	for _, c := range []struct {
		name  string
		args  []string
		codes []int
	}{
		{"gate", []string{"--fail-if", "latency.p99>1us"}, []int{3}},
		{"ungated", nil, []int{1, 4}}, // 4: on a machine too busy to measure
	} {
		disk := smallDisk(t, "64k")
		dir := filepath.Join(disk, "run")
		args := append([]string{"lapse", "run", server.URL, "--expect-status", "404", "--rate", "50", "--baseline", "300ms", "--settle", "100ms", "--out", dir}, c.args...)
		args = append(args, "--", "sh", "-c", "cat /dev/zero >"+disk+"/full; head -c 20000 /dev/urandom | base64")
		var stdout bytes.Buffer
		var stderr runtest.Buffer // as with a file, progress and log come from two goroutines
		code := cli.Main(t.Context(), args, &stdout, &stderr)
		if !slices.Contains(c.codes, code) {
			t.Errorf("%s: code %d, want one of %v", c.name, code, c.codes)
		}
		said := strings.Join(strings.Fields(stdout.String()), " ") // the table breaks its lines
		for _, want := range []string{fmt.Sprintf("exit %d", code), "not all on disk: write recording", "write timeline.json"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, stdout.String())
			}
		}
		if !strings.Contains(stderr.String(), "lapse: write timeline.json: ") {
			t.Errorf("%s: stderr %q", c.name, stderr.String())
		}
	}
}
