package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// What --baseline and --settle are where they are not given.
func TestPhasesFitTheRun(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		flags            []string
		command          []string
		baseline, settle time.Duration
	}{
		{[]string{"--duration=3s"}, nil, s, 0},
		{nil, []string{"true"}, 5 * s, 10 * s},
		{[]string{"--rate=0.1"}, []string{"true"}, 20 * s, 10 * s},
		{[]string{"--rate=0.5", "--duration=3s"}, nil, 4 * s, 0},
		{[]string{"--rate=1e-300"}, []string{"true"}, time.Hour, 10 * s},
	} {
		o := parsed(t, test.flags...)
		if err := o.check([]string{"http://127.0.0.1/"}, test.command); err != nil {
			t.Errorf("%q: %v", test.flags, err)
		}
		if o.baseline != test.baseline || o.settle != test.settle {
			t.Errorf("%q, command %q: baseline %v and settle %v, not %v and %v", test.flags, test.command, o.baseline, o.settle, test.baseline, test.settle)
		}
	}
}

// parsed are the options of a `lapse run` with these flags, unchecked.
func parsed(t *testing.T, flags ...string) *options {
	t.Helper()
	var o options
	cmd := &cobra.Command{}
	o.flags(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	return &o
}
