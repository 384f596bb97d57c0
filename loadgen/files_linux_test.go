package loadgen

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"lapse/timeline"
)

// The table of open files has room for a stall before the first request is due, so that it need not grow in the midst
// of one.
func TestProberMakesRoomForTheConnectionsOfAStall(t *testing.T) {
	p := New(Config{Clock: timeline.StartClock(), Sink: func(timeline.Fact) {}})
	if err := p.Start(Probe{Target: timeline.Target{ID: 1, Name: "new", Kind: timeline.New, URL: "http://127.0.0.1:9/",
		Rate: 100}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := tableSize(t); got < fewFiles {
		t.Errorf("room for %d open files, want %d", got, fewFiles)
	}
}

// tableSize returns for how many open files this process has room without growing.
func tableSize(t *testing.T) (size int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "FDSize:"); ok {
			if _, err := fmt.Sscan(text, &size); err != nil {
				t.Fatal(err)
			}
		}
	}
	return size
}
