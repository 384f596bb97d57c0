package main

import (
	"strings"
	"testing"
	"time"

	"lapse/run"

	"github.com/spf13/cobra"
)

// What --baseline and --settle are where they are not given, and that a 0 that is given is one.
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
		{[]string{"--baseline=0"}, []string{"true"}, 0, 10 * s},
		{[]string{"--settle=0"}, []string{"true"}, 5 * s, 0},
		{[]string{"--baseline=0", "--duration=3s"}, nil, 0, 0},
	} {
		o := parsed(t, test.flags...)
		if err := o.Check([]string{"http://127.0.0.1/"}, test.command); err != nil {
			t.Errorf("%q: %v", test.flags, err)
		}
		if o.Baseline != test.baseline || o.Settle != test.settle {
			t.Errorf("%q, command %q: baseline %v and settle %v, not %v and %v", test.flags, test.command, o.Baseline, o.Settle, test.baseline, test.settle)
		}
	}
}

// --direct-rate is --rate unless it is given, and 0 is none.
func TestDirectRateOfZeroIsNone(t *testing.T) {
	for flags, want := range map[string]float64{"": 50, "--direct-rate=7": 7, "--direct-rate=0": 0} {
		o := parsed(t, append(strings.Fields(flags), "--rate=50", "--duration=1s")...)
		if err := o.Check([]string{"svc/web"}, nil); err != nil || o.DirectRate != want {
			t.Errorf("%q: %v, %v", flags, o.DirectRate, err)
		}
	}
}

// parsed are the options of a `lapse run` with these flags, unchecked.
func parsed(t *testing.T, flags ...string) *run.Options {
	t.Helper()
	var o run.Options
	cmd := &cobra.Command{}
	runFlags(&o, cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	return &o
}
