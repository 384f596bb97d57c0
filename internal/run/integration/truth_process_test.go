package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// These tests do to a process of its own what no test can do to itself. They wait for what they need, and demand
// nothing of how long it takes; so they may share the machine.

func TestTruthSurvivesSIGKILL(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := runtest.StartServer(t, faultserver.Fault{Kind: faultserver.Error, To: time.Hour, Every: 10})
	p := startProcess(t, server, "--rate=200", "--baseline=2s", "--duration=10m", "--timeout=5s", "--fail-if=failed>1000000") // 5 s: longer than this machine stands still
	var live *model.Timeline
	recorded := func(requests int) func() bool {
		return func() bool {
			live = p.peek()
			return live != nil && live.Verdict.Sent >= requests
		}
	}
	p.await(t, "a recording of any request", recorded(1))
	least := p.recorded()
	p.await(t, "a recording of 500 requests", recorded(500))
	size := p.recorded()
	p.await(t, "it to grow", func() bool { return p.recorded() > size })
	p.signal(t, syscall.SIGKILL)
	if code := p.wait(t); code != -1 {
		t.Fatalf("exit code %d of a killed process", code)
	}
	killed := time.Now()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}

	s := p.unfinished(t, p.dir)
	if v := s.tl.Verdict; v.Sent < live.Verdict.Sent || v.Failed < live.Verdict.Failed || v.Failed == 0 {
		t.Errorf("%d of %d requests failed, but before the end it was %d of %d", v.Failed, v.Sent, live.Verdict.Failed, live.Verdict.Sent)
	}
	if n := server.Count(faultserver.Error); s.tl.Verdict.Failed > n || s.count(timeline.HTTP5xx) != s.tl.Verdict.Failed {
		t.Errorf("%d requests failed, %d of them http_5xx; the server failed %d", s.tl.Verdict.Failed, s.count(timeline.HTTP5xx), n)
	}
	if run := s.tl.Run; !run.Truncated || run.Duration > killed.Sub(s.tl.T0) || run.Planned != 10*time.Minute+2*time.Second {
		t.Errorf("recorded for %v of %v, cut: %v; want what came before %v", run.Duration, run.Planned, run.Truncated, killed.Sub(s.tl.T0))
	}
	for _, gap := range s.tl.Unobserved {
		if gap.End > s.tl.Run.Duration {
			t.Errorf("%+v: nothing is known of the time after the recording", gap)
		}
	}
	t.Logf("%d of %d requests are left, coverage %.4f, aborted: %s", s.tl.Verdict.Sent, server.Answered()+server.Count(faultserver.Error), s.tl.Verdict.Coverage, s.tl.Run.Aborted)
	for size, lost := p.recorded(), int64(1); size-lost >= least; lost *= 10 {
		p.unfinished(t, cutRun(t, p.dir, size-lost))
	}
}

// unfinished judges a run that was not finished, and demands that its report says so.
func (p *process) unfinished(t *testing.T, dir string) savedRun {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, saved.TimelineFile)); err == nil {
		t.Errorf("%s: a run that was killed has a %s", dir, saved.TimelineFile)
	}
	document, code := reported(t, dir)
	s := savedRun{dir: dir, document: document, tl: parseTimeline(t, document), facts: readFacts(t, dir)}
	s.checkAccount(t)
	if code != verdict.ExitAborted || s.tl.Verdict.Result != model.Inconclusive || s.tl.Run.Aborted == "" {
		t.Errorf("exit code %d, %s, aborted %q; want an aborted, inconclusive run", code, s.tl.Verdict.Result, s.tl.Run.Aborted)
	}
	return s
}

// cutRun copies a run with the first bytes of its recording, size of them.
func cutRun(t *testing.T, dir string, size int64) string {
	t.Helper()
	recording, err := os.ReadFile(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	cut := t.TempDir()
	if err := os.WriteFile(filepath.Join(cut, saved.FactsFile), recording[:size], 0o600); err != nil {
		t.Fatal(err)
	}
	return cut
}

// childScript is a wrapped command that notes each SIGINT in $1/signals. It does not outlive the prober.
const childScript = `
trap 'echo INT >>"$1/signals"' INT
echo $$ >"$1/pid.new" && mv "$1/pid.new" "$1/pid"
while kill -0 $PPID 2>/dev/null; do
	sleep 0.05
	if [ "$2" = polite ] && [ -s "$1/signals" ]; then
		sleep 0.2
		exit 0
	fi
done
`

func TestTruthOfOneSIGINT(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	p, scratch := startWrapping(t, "polite", "--settle=300ms")
	p.signal(t, syscall.SIGINT)
	s := p.ended(t, verdict.ExitAborted)
	if got := read(t, scratch, "signals"); got != "INT\n" {
		t.Errorf("the command received %q, want one SIGINT", got)
	}
	if c := s.tl.Run.Command; c == nil || c.ExitCode == nil || *c.ExitCode != 0 {
		t.Errorf("the command ended as %+v, want exit code 0: it was left to end by itself", c)
	}
	if got := s.phases(); !slices.Equal(got, []string{"baseline", "measuring", "settling", "ended"}) {
		t.Errorf("phases %v", got)
	}
	if !strings.Contains(s.tl.Run.Aborted, "SIGINT") {
		t.Errorf("aborted: %q", s.tl.Run.Aborted)
	}
}

func TestTruthOfASecondSIGINT(t *testing.T) {
	layer.Real(t)
	for _, test := range []struct {
		name, manner string
		second       func(*process) bool // when the second one is sent
		phases       []string
	}{
		{"while the command runs on", "stubborn", nil, []string{"baseline", "measuring", "ended"}},
		{"while the run settles", "polite", (*process).settles, []string{"baseline", "measuring", "settling", "ended"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, scratch := startWrapping(t, test.manner, "--settle=10m")
			p.signal(t, syscall.SIGINT)
			runtest.WaitFor(t, "the command to be signalled", func() bool { return read(t, scratch, "signals") != "" })
			if test.second != nil {
				runtest.WaitFor(t, "the second moment", func() bool { return test.second(p) })
			}
			p.signal(t, syscall.SIGINT)
			s := p.ended(t, verdict.ExitAborted)
			if got := read(t, scratch, "signals"); got != "INT\n" {
				t.Errorf("the command received %q, want one SIGINT", got)
			}
			if got := s.phases(); !slices.Equal(got, test.phases) {
				t.Errorf("phases %v, want %v", got, test.phases)
			}
			pid := strings.TrimSpace(read(t, scratch, "pid"))
			runtest.WaitFor(t, "the command's end", func() bool { return exec.Command("kill", "-0", pid).Run() != nil })
		})
	}
}

// startWrapping starts a run around a command of a manner, which is being measured when this returns. scratch is where
// the command keeps its notes.
func startWrapping(t *testing.T, manner string, args ...string) (p *process, scratch string) {
	t.Helper()
	scratch = t.TempDir()
	args = append(args, "--rate=100", "--baseline=200ms", "--", "sh", "-c", childScript, "child", scratch, manner)
	p = startProcess(t, runtest.StartServer(t), args...)
	runtest.WaitFor(t, "the command to run", func() bool { return read(t, scratch, "pid") != "" })
	return p, scratch
}

// settles reports whether the recording says that the run settles.
func (p *process) settles() bool {
	tl := p.peek()
	return tl != nil && slices.Contains((&savedRun{tl: tl}).phases(), "settling")
}

// phases returns the phases that the run went through.
func (s *savedRun) phases() (phases []string) {
	for _, e := range s.tl.Events {
		if e.Kind == timeline.RunPhase {
			phases = append(phases, e.To)
		}
	}
	return phases
}

// A process is `lapse run` as a process of its own, in its own process group.
type process struct {
	dir    string
	cmd    *exec.Cmd
	stdout bytes.Buffer
	exited chan struct{}
}

func startProcess(t *testing.T, server *faultserver.Server, args ...string) *process {
	t.Helper()
	return startRun(t, append([]string{server.URL()}, args...)...)
}

// startRun starts `lapse run` with targets and flags.
func startRun(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{dir: filepath.Join(t.TempDir(), "run"), exited: make(chan struct{})}
	p.cmd = exec.Command("lapse", append([]string{"run", "--out=" + p.dir, "-o=json"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, t.Output()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		select {
		case <-p.exited:
		default:
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
	})
	return p
}

// startHeld starts `lapse run` with targets and flags. It measures until the test calls release, however long the
// test's own steps take on this machine.
func startHeld(t *testing.T, args ...string) (p *process, release func()) {
	t.Helper()
	hold := filepath.Join(t.TempDir(), "hold")
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	p = startRun(t, append(args, "--settle=0", "--", "cat", hold)...)
	return p, func() {
		go func() { // cat opens it when the command runs; it ends with the writer
			if writer, err := os.OpenFile(hold, os.O_WRONLY, 0); err == nil {
				_ = writer.Close()
			}
		}()
	}
}

// signal sends a signal to the process's group, as a terminal does.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the process's end and returns its exit code, -1 if a signal ended it.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(runtest.Patience):
		t.Fatal("the run does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// ended waits for a run that writes a report, and demands its exit code to be one of those.
func (p *process) ended(t *testing.T, want ...int) savedRun {
	t.Helper()
	s := p.robbed(t, want...)
	s.checkOurOwn(t)
	return s
}

// robbed is as ended, for a prober that was robbed of something it needs: its requests may fail for that.
func (p *process) robbed(t *testing.T, want ...int) savedRun {
	t.Helper()
	code := p.wait(t)
	s := loadSaved(t, p.dir)
	s.check(t, code, p.stdout.Bytes())
	if !slices.Contains(want, code) {
		t.Errorf("exit code %d, want %d", code, want)
	}
	return s
}

// recorded returns how many bytes the recording has by now.
func (p *process) recorded() int64 {
	info, err := os.Stat(filepath.Join(p.dir, saved.FactsFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

// peek judges what is recorded by now; nil if nothing can be judged.
func (p *process) peek() *model.Timeline {
	tl, err := saved.Load(p.dir, correlate.Options{}, nil)
	if err != nil {
		return nil
	}
	return tl
}

// failedSince counts the failures on record of requests sent after an instant. What a busy machine made of the others
// says nothing of the target, so a test waits for failures, not for requests.
func (p *process) failedSince(at time.Time) (n int) {
	tl := p.peek()
	if tl == nil {
		return 0
	}
	for _, f := range tl.Failures {
		if f.Sent >= at.Round(0).Sub(tl.T0) {
			n++
		}
	}
	return n
}

// read reads a file; one that is not there yet is empty.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// await waits until something is done while Lapse runs.
func (p *process) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	runtest.WaitFor(t, what, func() bool {
		select {
		case <-p.exited:
			t.Fatalf("lapse has ended, waiting for %s: %v\n%s", what, p.cmd.ProcessState, p.stdout.String())
		default:
		}
		return done()
	})
}
