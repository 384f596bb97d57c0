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

// Logs are those of a Pod, which are followed.
type Logs struct {
	of    string
	lines *bufio.Scanner
	log   io.Writer
}

// Logs follows the logs of what kubectl calls deploy/NAME or pod/NAME, until ctx ends. Each line is copied to log.
func (c *Cluster) Logs(ctx context.Context, namespace, of string, log io.Writer) (*Logs, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "kubectl"), "-n", namespace, "logs", "-f", of)
	cmd.Env = c.Env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Wait() }) // ctx has ended it
	return &Logs{of, bufio.NewScanner(out), log}, nil
}

// Await waits for a line with a text.
func (l *Logs) Await(text string) error {
	for l.lines.Scan() {
		fmt.Fprintln(l.log, l.lines.Text())
		if strings.Contains(l.lines.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("the log of %s ended without %q", l.of, text)
}
