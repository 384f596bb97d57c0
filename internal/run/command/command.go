// Package command runs the wrapped command of a run, and makes events of its start, output and end.
package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"lapse/internal/run/mask"
	"lapse/loadgen"
	"lapse/timeline"
)

const (
	maxLines  = 10_000 // output lines that become events
	maxLine   = 500    // bytes of an output line that become an event
	maxMasked = 2000   // bytes of an output line that are searched for credentials

	// pipeSize is how many bytes of output may wait to be read. After its end a command has left no more than that.
	pipeSize = 64 << 10
	// lingering is how long to wait for more output after the command has exited: a process that it left in the
	// background, or a paused terminal, may keep the output open for ever.
	lingering = 250 * time.Millisecond
)

// A Wrapped is the wrapped command. It runs in its own process group, so that a terminal's Ctrl-C
// reaches it once, through us.
type Wrapped struct {
	Args    []string
	Capture bool      // each line of output also becomes an event
	Output  io.Writer // for its output
	Event   func(timeline.Event)
	Now     func() time.Duration

	cmd  *exec.Cmd
	read atomic.Int64 // bytes of its output
}

// Start starts the command. After its last output, done is called with its exit code: Start does not wait for whoever
// reads the output.
func (c *Wrapped) Start(done func(exitCode int)) error {
	c.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	c.cmd.SysProcAttr = ownGroup
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	c.cmd.Stdout, c.cmd.Stderr = in, in
	err = loadgen.WithUsualSlice(c.cmd.Start)
	in.Close()
	if err != nil {
		out.Close()
		return fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	c.Event(timeline.Event{
		Seen: c.Now(), Kind: timeline.Command, To: "running", Writer: "lapse",
		Detail: timeline.JoinCommand(mask.Command(c.Args)),
	})
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		c.copyOutput(out)
	}()
	go func() {
		err := c.cmd.Wait()
		ended := c.Now()
		c.awaitOutput(copied)
		out.Close()
		code := exitStatus(c.cmd, err)
		c.Event(timeline.Event{
			Seen: ended, Kind: timeline.Command, From: "running", To: "exited", Writer: "lapse", ExitCode: &code,
		})
		done(code)
	}()
	return nil
}

// exitStatus returns the command's exit code as a shell does: 128 plus the signal's number if a signal ended it.
func exitStatus(cmd *exec.Cmd, err error) int {
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return max(cmd.ProcessState.ExitCode(), 1)
	}
	return cmd.ProcessState.ExitCode()
}

// copyOutput passes the output on as it comes, and marks its lines.
func (c *Wrapped) copyOutput(r io.Reader) {
	lines := outputLines{event: func(text string) {
		c.Event(timeline.Event{Seen: c.Now(), Kind: timeline.CommandOutput, Writer: "lapse", Detail: text})
	}}
	buffer := make([]byte, pipeSize)
	for {
		n, err := r.Read(buffer)
		c.read.Add(int64(n))
		if c.Capture { // before it is shown, which may take long
			lines.add(buffer[:n])
		}
		_, _ = c.Output.Write(buffer[:n]) // whoever reads the output may have gone: the command goes on
		if err != nil {
			lines.end()
			return
		}
	}
}

// awaitOutput waits until all output is copied, or nothing more has come for a while, or what comes was written after
// the command's end, by a process in the background.
func (c *Wrapped) awaitOutput(copied <-chan struct{}) {
	begin := c.read.Load()
	for before := begin; ; before = c.read.Load() {
		select {
		case <-copied:
			return
		case <-time.After(lingering):
		}
		if now := c.read.Load(); now == before || now-begin > 2*pipeSize {
			return
		}
	}
}

// outputLines makes an event of the beginning of each line of output. Of a progress bar, which overwrites its line
// with carriage returns, it takes the last state.
type outputLines struct {
	event  func(text string)
	masker mask.Lines
	line   []byte // its beginning, up to maxMasked
	cut    bool   // the line was longer
	over   bool   // the last byte was a carriage return: what follows overwrites the line
	marked int
}

func (l *outputLines) add(output []byte) {
	for len(output) > 0 && l.marked < maxLines {
		piece, rest, whole := bytes.Cut(output, []byte("\n"))
		l.extend(piece)
		if whole {
			l.mark()
		}
		output = rest
	}
}

// extend adds a piece to the line.
func (l *outputLines) extend(piece []byte) {
	if len(piece) == 0 {
		return
	}
	text := bytes.TrimRight(piece, "\r")
	at := bytes.LastIndexByte(text, '\r')
	if len(text) > 0 && (l.over || at >= 0) {
		l.line, l.cut = l.line[:0], false
	}
	l.over = len(text) < len(piece)
	text = text[at+1:]
	room := min(len(text), maxMasked-len(l.line))
	l.line, l.cut = append(l.line, text[:room]...), l.cut || room < len(text)
}

// mark makes an event of the line. It clips the line before it masks it, so that long lines cost no more.
func (l *outputLines) mark() {
	text := string(l.line)
	if l.cut { // a credential that is cut has no known form
		text = text[:max(strings.LastIndexByte(text, ' '), maxLine)] + "…"
	}
	text = clip(l.masker.Mask(text))
	if l.marked++; l.marked == maxLines {
		text = "… (further output is not recorded)"
	}
	l.event(text)
	l.line, l.cut, l.over = l.line[:0], false, false
}

// end marks a last line without an end.
func (l *outputLines) end() {
	if len(l.line) > 0 && l.marked < maxLines {
		l.mark()
	}
}

func clip(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "…"
}

// Signal sends sig to the command and the processes that it started.
func (c *Wrapped) Signal(sig syscall.Signal) {
	if c.cmd != nil && c.cmd.Process != nil {
		_ = signalGroup(c.cmd.Process, sig) // it may just have ended
	}
}

// Stop ends the command, and waits up to 3 s for it.
func (c *Wrapped) Stop(done <-chan int) {
	c.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		c.Signal(syscall.SIGKILL)
	}
}
