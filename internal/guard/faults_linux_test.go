package guard

import (
	"errors"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/saved"
)

// fill makes the disk take no more: of no file more than these bytes. The returned function makes room again.
func fill(t *testing.T, bytes uint64) (room func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	// go test has a file of its own, of which opened files it depends on, written 4 kB at once. It must not be due now.
	if own := flag.Lookup("test.testlogfile").Value.String(); own != "" {
		size := func() int64 {
			info, err := os.Stat(own) // is noted, too
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		for before := size(); size() == before; {
		}
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	full := was
	full.Cur = bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	room = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(room)
	return room
}

// What a full disk does not take does not pass, and fails all the same. Status, log, metric and gate say so until there
// is room again. What was recorded stays, and the next guard does not let it pass either.
func TestWhatAFullDiskDoesNotTakeDoesNotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, filepath.Join(t.TempDir(), "runs"))
		f.guards("shop/web")
		says := func(want string) {
			t.Helper()
			var text strings.Builder
			if err := Print(&text, f.report()); err != nil || strings.Contains(text.String(), "not all of the newest run is on disk") != (want != "") || !strings.Contains(text.String(), want) {
				t.Errorf("the status says %v\n%s", err, &text)
			}
		}
		end := f.disrupt("shop/web", 0)
		room := fill(t, 100)
		end()
		lost := f.asked("service=shop/web&node=node1", 200, gate.Inconclusive)
		if !strings.HasPrefix(lost.Reason, "0 of 900 failed; not all of the run is on disk: ") {
			t.Errorf("%+v", lost)
		}
		says("not all of the newest run is on disk, so the gate does not let it pass: write ")
		if !f.exports("lapse_store_errors_total 1") || !f.exports(`lapse_gate_state{service="shop/web",state="inconclusive"} 1`) {
			t.Error("the metrics do not say so")
		}
		if n := strings.Count(f.log.String(), "not all of a run is on disk"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, f.log)
		}
		f.disrupt("shop/web", 3)()
		f.asked("service=shop/web&node=node1", 200, gate.Fail)
		room()
		f.disrupt("shop/web", 0)()
		f.asked("service=shop/web&node=node1", 200, gate.Pass)
		says("")
		kept := saved.Runs(f.dir)
		f.stop()
		if len(kept) == 0 || kept[0] != lost.Run {
			t.Errorf("%q are kept, without %s", kept, lost.Run)
		}
		next := newFake(t, f.dir)
		next.guards("shop/web")
		if _, a := next.ask("service=shop/web&run=" + lost.Run); a.State == gate.Pass {
			t.Errorf("the next guard says %+v", a)
		}
	})
}

// While the API server is away nothing is told; when it is back, what was measured meanwhile is, once.
func TestWhatIsMeasuredWhileTheAPIServerIsAwayIsToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &elected{}
		f := newFakeOf(t, filepath.Join(t.TempDir(), "runs"), leader)
		f.guards("shop/web")
		lead := func(problem string) {
			leader.leads.Store(problem == "")
			leader.problem.Store(problem)
		}
		lead("")
		f.untold = errors.New("connection refused") // the Lease has not expired yet
		f.disrupt("shop/web", 3)()
		lead("connection refused")
		f.disrupt("shop/web", 0)()
		f.asked("service=shop/web&node=node1", 200, gate.Pass)
		var text strings.Builder
		if err := Print(&text, f.report()); err != nil || !strings.Contains(text.String(), "the Lease cannot be read or written, Events wait until a guard leads: connection refused") ||
			!strings.Contains(text.String(), "Events cannot be written: connection refused") {
			t.Errorf("the status says %v\n%s", err, &text)
		}
		time.Sleep(time.Minute) // of virtual time
		if synctest.Wait(); len(f.told) > 0 {
			t.Errorf("told %+v", f.told)
		}
		f.measured.Lock()
		f.untold = nil
		f.measured.Unlock()
		lead("")
		time.Sleep(2 * sayAgain)
		if synctest.Wait(); len(f.told) != 4 {
			t.Errorf("%d Events of two runs on a Service and its Deployment: %+v", len(f.told), f.told)
		}
		if r := f.report(); r.Unsaid != "" || r.Election != "" {
			t.Errorf("%+v", r)
		}
		time.Sleep(mostUnsaid)
		if synctest.Wait(); len(f.told) != 4 {
			t.Errorf("%d Events later", len(f.told))
		}
	})
}

// A guard that is killed in any state leaves nothing that passes: the next one does not know what happened meanwhile.
func TestAKilledGuardLetsNothingPass(t *testing.T) {
	arms := func(f *fake) {
		if _, err := f.arm(f.t.Context(), "shop/web", "by hand", time.Hour); err != nil {
			t.Error(err)
		}
	}
	for state, reaches := range map[coordinator.Standby]func(*fake){
		notMeasured:           func(f *fake) { f.refuse("shop/web", errors.New("it has no ready endpoint")); f.guards("shop/web") },
		starting:              func(f *fake) { f.marks("shop/web"); synctest.Wait() },
		coordinator.Idle:      func(f *fake) { f.guards("shop/web") },
		coordinator.Raised:    func(f *fake) { f.guards("shop/web"); arms(f) },
		coordinator.Recording: func(f *fake) { f.guards("shop/web"); f.disrupt("shop/web", 0) },
	} {
		t.Run(string(state), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, since := filepath.Join(t.TempDir(), "runs"), time.Now().UTC().Format(time.RFC3339)
				f := newFake(t, dir)
				if reaches(f); f.status("shop/web").State != state {
					t.Fatalf("it is %q", f.status("shop/web").State)
				}
				f.stop() // these measurements, being made up, judge nothing then
				next := newFake(t, dir)
				next.guards("shop/web")
				next.asked("none=pass&service=shop/web&since="+since, 200, gate.Inconclusive)
				runs := saved.Runs(dir)
				if begun := state == coordinator.Recording; begun != (len(runs) == 1) {
					t.Fatalf("runs are left: %q", runs)
				}
				for _, run := range runs {
					if _, a := next.ask("service=shop/web&run=" + run); a.State == gate.Pass {
						t.Errorf("%+v", a)
					}
				}
				next.disrupt("shop/web", 0)()
				next.asked("service=shop/web&node=node1", 200, gate.Pass)
			})
		})
	}
}
