package spec

import (
	"fmt"
	"slices"
	"syscall"

	"lapse/internal/run/exit"
	"lapse/loadgen/hey"
	"lapse/timeline"
)

// FewFiles is the number of open files for everything but the targets' connections.
const FewFiles = 100

// CheckFileLimit returns a usage error if this process cannot open the files that what needs. The hint says to lower
// flags.
func CheckFileLimit(what string, need float64, flags string) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // a request that finds no file fails, and is shown
	}
	if need > float64(limit.Cur) {
		return exit.Usagef("raise the limit with `ulimit -n`, or lower "+flags,
			"%s takes up to %.0f open files, and %d are allowed", what, need, limit.Cur)
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
