package integration

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
)

// Ctrl-S on the terminal, or a pipe that nobody reads: the run ends, and its result is on disk.
func TestTheResultIsOnDiskBeforeAnybodyReadsIt(t *testing.T) {
	layer.Real(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, args := range map[string][]string{
		"for a while":      {"--duration=300ms"},
		"around a command": {"--settle=10ms", "--", "sh", "-c", "echo one; echo two"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			terminal := runtest.NewPausedTerminal()
			exited := make(chan int, 1)
			go func() {
				exited <- cli.Main(t.Context(), append([]string{"lapse", "run", server.URL, "--rate=20", "--baseline=0s", "--out=" + dir}, args...), terminal, terminal)
			}()
			runtest.WaitFor(t, "timeline.json", func() bool { _, err := os.Stat(filepath.Join(dir, saved.TimelineFile)); return err == nil })
			select {
			case code := <-exited:
				t.Errorf("it ended with exit code %d before its result was read", code)
			default:
			}
			close(terminal.Read)
			<-exited
			if out := terminal.String(); !strings.Contains(out, "measured  ") || name == "around a command" && !strings.Contains(out, "one\ntwo\n") {
				t.Errorf("printed:\n%s", out)
			}
		})
	}
}

// What was removed while it was measured is not on disk: the exit code and the report say so, and it names no DIR
// that is not there.
func TestWhatIsRemovedInMidRunIsNotSaidToBeOnDisk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, test := range map[string]struct {
		remove string
		files  bool // timeline.json is there
	}{
		"the recording":        {"rm facts.lapse", true},
		"another in its place": {"echo >x; mv x facts.lapse", true},
		"the directory":        {"rm -r .", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			remove := "cd " + dir + " && " + strings.Replace(test.remove, "rm -r .", "rm -r "+dir, 1)
			var out, errOut bytes.Buffer
			code := cli.Main(t.Context(), []string{"lapse", "run", server.URL, "--rate=20", "--baseline=0s", "--settle=10ms", "--out=" + dir, "--", "sh", "-c", remove}, &out, &errOut)
			// 4: the run is too short for a busy machine
			if code != 1 && code != 4 || !strings.Contains(errOut.String(), "was removed or replaced while it was written") {
				t.Errorf("exit code %d, printed:\n%s%s", code, &out, &errOut)
			}
			if files := strings.Contains(out.String(), "DIR = "); files != test.files {
				t.Errorf("DIR is there: %v, printed:\n%s", files, &out)
			}
		})
	}
}
