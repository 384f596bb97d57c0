package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"lapse/loadgen"
	"lapse/timeline"
)

// maxLines is how many output lines become events.
const maxLines = 10_000

// maxLine is how much of an output line becomes an event, in bytes.
const maxLine = 500

// lingering is how long output is waited for once the command has exited: what it left in the background may hold
// its output open for ever, and so may a terminal that is paused.
const lingering = 250 * time.Millisecond

// A wrappedCommand is the wrapped command. It runs in its own process group, so that a terminal's Ctrl-C
// reaches it once, through us.
type wrappedCommand struct {
	args    []string
	capture bool      // each line of output also becomes an event
	output  io.Writer // where its output goes
	event   func(timeline.Event)
	now     func() time.Duration

	cmd *exec.Cmd
}

// start starts the command; done is called with its exit code, after its last output. It does not wait for whoever
// reads that output.
func (c *wrappedCommand) start(done func(exitCode int)) error {
	c.cmd = exec.Command(c.args[0], c.args[1:]...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.args[0], err)
	}
	c.cmd.Stdout, c.cmd.Stderr = in, in
	err = loadgen.WithUsualSlice(c.cmd.Start)
	in.Close()
	if err != nil {
		out.Close()
		return fmt.Errorf("start %s: %w", c.args[0], err)
	}
	c.event(timeline.Event{Seen: c.now(), Kind: timeline.Command, To: "running", Writer: "lapse", Detail: timeline.JoinCommand(maskCommand(c.args))})
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if c.capture {
			c.copyLines(out)
		} else {
			_, _ = io.Copy(c.output, out) // whoever reads the output may have gone: the command goes on
		}
	}()
	go func() {
		err := c.cmd.Wait()
		ended := c.now()
		select {
		case <-copied:
		case <-time.After(lingering):
		}
		out.Close()
		code := exitStatus(c.cmd, err)
		c.event(timeline.Event{Seen: ended, Kind: timeline.Command, From: "running", To: "exited", Writer: "lapse", ExitCode: &code})
		done(code)
	}()
	return nil
}

// exitStatus is the command's exit code as a shell would tell it: 128 plus the signal's number if
// one ended it.
func exitStatus(cmd *exec.Cmd, err error) int {
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return max(cmd.ProcessState.ExitCode(), 1)
	}
	return cmd.ProcessState.ExitCode()
}

// copyLines passes the output on, line by line, each with its instant. A line of any length gets through.
func (c *wrappedCommand) copyLines(r io.Reader) {
	in := bufio.NewReader(r)
	for marked := 0; ; {
		line, err := in.ReadString('\n')
		if line != "" {
			text := line
			if marked++; marked == maxLines {
				text = "… (further output is not recorded)"
			}
			if marked <= maxLines { // before it is shown, which may take as long as it likes
				c.event(timeline.Event{Seen: c.now(), Kind: timeline.CommandOutput, Writer: "lapse", Detail: clip(maskText(strings.TrimRight(text, "\r\n")))})
			}
			_, _ = io.WriteString(c.output, line)
		}
		if err != nil {
			return
		}
	}
}

func clip(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "…"
}

// signal sends sig to the command and all it started.
func (c *wrappedCommand) signal(sig syscall.Signal) {
	if c.cmd != nil && c.cmd.Process != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, sig) // it may just have ended
	}
}

// stop ends the command, and waits a little for it: the end of a run is not the place to hang.
func (c *wrappedCommand) stop(done <-chan int) {
	c.signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		c.signal(syscall.SIGKILL)
	}
}
