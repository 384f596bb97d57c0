package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// runSelftest runs `lapse selftest` at three rates.
func runSelftest(ctx context.Context, b *bench, page *page, s *settings) error {
	var text strings.Builder
	for _, rate := range []string{"200", "1000", "5000"} {
		args := []string{"selftest", "--rate", rate, "--seed", "1", "--duration", s.selftest.String()}
		c := claim{Figure: "`lapse selftest` at " + rate + " rps", Must: "exit 0", Tabled: true}
		code, stdout, stderr, err := b.runLapse(ctx, args)
		if err != nil {
			return err
		}
		c.Measured, c.Held = fmt.Sprintf("exit %d", code), code == 0
		page.Claims = append(page.Claims, c)
		fmt.Fprintf(&text, "```\n$ lapse %s\n%s```\n\n", strings.Join(args, " "), excerpt(stdout, code))
		if code != 0 && stderr != "" {
			fmt.Fprintf(&text, "```\n%s```\n\n", stderr)
		}
		fmt.Fprintf(b.talk, "  at %s rps: exit %d\n", rate, code)
	}
	page.Selftest = strings.TrimSpace(text.String())
	return nil
}

// excerpt returns the result that selftest printed; all that it printed if it failed.
func excerpt(stdout string, code int) string {
	if code != 0 {
		return stdout
	}
	result, _, _ := strings.Cut(stdout, "\n\n")
	return result + "\n"
}

// runLapse runs lapse to its end. The error is for one that could not be started or was killed.
func (b *bench) runLapse(ctx context.Context, args []string) (code int, stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, b.lapse, args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &talk, b.scratch
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), out.String(), talk.String(), nil
	}
	return 0, out.String(), talk.String(), err
}
