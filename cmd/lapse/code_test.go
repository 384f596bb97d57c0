package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// expectCode is the scripts' command `code N[,N...] CMD...`: it runs CMD, passes its output on, and fails unless it
// exits with one of the codes. (On a machine too busy to measure, a run is inconclusive, and rightly so.)
func expectCode(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: code N[,N...] CMD...")
		return 1
	}
	want := strings.Split(args[0], ",")
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if got := cmd.ProcessState.ExitCode(); !slices.Contains(want, strconv.Itoa(got)) {
		fmt.Fprintf(os.Stderr, "exit code %d, want %s\n", got, args[0])
		return 1
	}
	return 0
}
