package drill

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Lines are those that a kubectl command prints, which does not end by itself.
type Lines struct {
	of    string
	lines *bufio.Scanner
	log   io.Writer
}

// Follow runs kubectl, such as `logs -f` or `get --watch`, until ctx ends. Each line is copied to log.
func (c *Cluster) Follow(ctx context.Context, log io.Writer, args ...string) (*Lines, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "kubectl"), args...)
	cmd.Env = c.Env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Wait() }) // ctx has ended it
	return &Lines{strings.Join(args, " "), bufio.NewScanner(out), log}, nil
}

// Await waits for a line with a text.
func (l *Lines) Await(text string) error {
	for l.lines.Scan() {
		fmt.Fprintln(l.log, l.lines.Text())
		if strings.Contains(l.lines.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("kubectl %s ended without %q", l.of, text)
}
