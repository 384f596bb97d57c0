package workstation

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/internal/run/command"
	"lapse/internal/run/exit"
	"lapse/internal/run/live"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/timeline"
)

// followed returns a run that has come in as far as it was to, with no command.
func followed(ended bool) *clusterRun {
	r := &clusterRun{opts: &spec.Options{}, log: slog.New(slog.DiscardHandler), command: &command.Wrapped{}, commandExit: make(chan int, 1), events: newCommandEvents(), feed: newFeed(nil)}
	r.live = live.New(nil)
	r.facts.Put(timeline.Meta{ID: "x7k2p"})
	if ended {
		r.facts.Put(timeline.PhaseChange(time.Second, timeline.PhaseMeasuring, timeline.PhaseEnded, ""))
	}
	return r
}

// A run is over when nothing more comes in and no command runs.
func TestAFollowedRunEndsWhenNothingComesInAndNoCommandRuns(t *testing.T) {
	for _, test := range []struct {
		name        string
		ended       bool // the recording has the run's end
		err         error
		running     bool
		whole, over bool
	}{
		{"the whole recording is here", true, nil, false, true, true},
		{"the Pod ended the run, and the command goes on", true, nil, true, true, false},
		{"the recording breaks off", false, nil, false, false, true},
		{"the recording breaks off, and the command goes on", false, nil, true, false, false},
		{"the Pod is lost", false, errors.New("gone"), false, false, true},
		{"the Pod is lost, and the command goes on", false, errors.New("gone"), true, false, false},
	} {
		r := followed(test.ended)
		r.running = test.running
		if over := r.onFetched(test.err); over != test.over || r.whole != test.whole || (r.lost == nil) != test.whole || !r.isFetched() {
			t.Errorf("%s: over %v, whole %v, lost %v", test.name, over, r.whole, r.lost)
		}
	}
}

// The first Ctrl-C is the command's. What comes after it, or what is no Ctrl-C, ends the run, and one more does not
// wait for the Pod.
func TestSignalsEndAFollowedRunInOrder(t *testing.T) {
	for _, test := range []struct {
		name    string
		running bool
		fetched bool
		signals []os.Signal
		aborts  int
		over    bool
	}{
		{"the command gets it", true, false, []os.Signal{syscall.SIGINT}, 0, false},
		{"no command", false, false, []os.Signal{syscall.SIGINT}, 1, false},
		{"SIGTERM", true, false, []os.Signal{syscall.SIGTERM}, 1, false},
		{"a second one", true, false, []os.Signal{syscall.SIGINT, syscall.SIGINT}, 0, true},
		{"after the Pod's end", true, true, []os.Signal{syscall.SIGTERM}, 0, true},
		{"while the Pod ends", false, false, []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 1, true},
	} {
		r := followed(false)
		var said strings.Builder
		r.log = terminal.NewLogger(&said)
		r.running, r.whole = test.running, test.fetched
		r.commandExit <- 0 // the command ends at the signal
		aborts, over := 0, false
		for _, sig := range test.signals {
			over = r.onSignal(sig, func(string) { aborts++ })
		}
		if over != test.over || aborts != test.aborts || r.stopped != exit.StoppedBy(test.signals[len(test.signals)-1]) {
			t.Errorf("%s: over %v, the Pod was asked to end the run %d times, stopped %q", test.name, over, aborts, r.stopped)
		}
		told := test.running && test.signals[0] == syscall.SIGINT // ux D18: somebody who pressed Ctrl-C must see that it was taken
		if strings.Contains(said.String(), "Ctrl-C again ends the run at once") != told {
			t.Errorf("%s: said %q", test.name, said.String())
		}
	}
}
