package cli

import (
	"strings"
	"testing"
	"time"

	"lapse/internal/run/spec"
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

// A baseline that a low rate makes long is announced before the run begins.
func TestLongBaselineIsAnnounced(t *testing.T) {
	for flags, want := range map[string]string{
		"--rate=0.001":               "note: the baseline takes 33 min 20 s: at --rate 0.001 a target gets a request every 16 min 40 s, and is to answer before anything is disturbed; raise --rate, or set --baseline\n",
		"--rate=0.1":                 "",
		"--rate=0.001 --baseline=1m": "",
		"":                           "",
	} {
		o := parsed(t, strings.Fields(flags)...)
		if err := o.Check([]string{"http://127.0.0.1/"}, []string{"true"}); err != nil {
			t.Errorf("%q: %v", flags, err)
		}
		var notes strings.Builder
		if o.PrintNotes(&notes); notes.String() != want {
			t.Errorf("%q:\n got %swant %s", flags, &notes, want)
		}
	}
}

// A run that is shorter than the time between two requests is refused.
func TestRunWithoutTimeForARequestIsRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"--rate=0.001 --duration=30s":               "rate 0.001: one request in 16 min 40 s, and --duration 30s is shorter: it may measure nothing",
		"--rate=0.1 --duration=10s":                 "",
		"--rate=0.001 --duration=30s --target=held": "",
	} {
		got := ""
		if err := parsed(t, strings.Fields(flags)...).Check([]string{"http://127.0.0.1/"}, nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", flags, got, want)
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

// parsed returns the options of a `lapse run` with flags, unchecked.
func parsed(t *testing.T, flags ...string) *spec.Options {
	t.Helper()
	o, err := Options(flags...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
