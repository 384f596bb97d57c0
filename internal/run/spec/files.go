package spec

import (
	"fmt"
	"runtime"
	"slices"

	"lapse/internal/run/exit"
	"lapse/loadgen/hey"
	"lapse/timeline"
)

// FewFiles is the number of open files for everything but the targets' connections.
const FewFiles = 100

// CheckMeasures returns a usage error if requests cannot be measured on this machine.
func CheckMeasures() error { return checkSystem(runtime.GOOS) }

// checkSystem refuses Windows, where neither the pacing of requests nor the kinds of errors are known well enough.
func checkSystem(goos string) error {
	if goos == "windows" {
		return exit.Usagef("measure a Service, as svc/NAME: a Job in the cluster sends the requests",
			"requests are not measured from Windows")
	}
	return nil
}

// CheckFileLimit returns a usage error if this process cannot measure, or cannot open the files that what needs. The
// hint says to lower flags.
func CheckFileLimit(what string, need float64, flags string) error {
	if err := CheckMeasures(); err != nil {
		return err
	}
	if allowed := openFiles(); need > allowed {
		return exit.Usagef("raise the limit with `ulimit -n`, or lower "+flags,
			"%s takes up to %.0f open files, and %.0f are allowed", what, need, allowed)
	}
	return nil
}

// checkOpenFiles refuses options that may need more open files than this machine allows. The worst case is a Service
// that stalls: every request stays open for its --timeout.
func checkOpenFiles(o *Options) error {
	if o.InCluster() {
		return nil
	}
	stalled := o.RateFrom(1) * o.Timeout.Seconds()
	need := float64(FewFiles)
	for _, s := range o.Parsed {
		kinds := kindsOf(o, s)
		need += stalled * float64(len(ratedKindsOf(o, s)))
		if o.holds() {
			need += float64(o.Held)
		}
		if slices.Contains(kinds, string(timeline.Reused)) {
			need += float64(o.Connections)
		}
		if s.Service != "" {
			need += max(o.DirectRate, 0) * o.Timeout.Seconds()
		}
	}
	what := fmt.Sprintf("rate %v with timeout %v and connections %d", o.RateFrom(1), o.Timeout, o.Connections)
	flags := "--connections, --rate or --timeout"
	if o.holds() {
		what, flags = fmt.Sprintf("%s and %d held", what, o.Held), "--held, "+flags
	}
	if load, err := hey.ParseFlags(o.Hammer); o.Hammer != "" && err == nil { // else it is refused elsewhere
		need += float64(load.Workers)
		what, flags = fmt.Sprintf("%s beside a hammer of %d workers", what, load.Workers), flags+", or the hammer's -c"
	}
	return CheckFileLimit(what, need, flags)
}
