// Package command runs short programs.
package command

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Run runs a program. The error has all that it printed.
func Run(ctx context.Context, stdin, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err,
			strings.TrimSpace(string(out)))
	}
	return nil
}

// LastLines returns the last n lines of what a program printed.
func LastLines(printed string, n int) string {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
