package doctor

import (
	"fmt"
	"net"
	"runtime"

	"lapse/internal/hint"
	"lapse/internal/run/spec"
	"lapse/loadgen"
)

// files is how many files a run with the default flags may open: 500 requests at once and all else.
const files = 500 + spec.FewFiles

// Machine returns what this machine allows a prober that runs on it, as for `lapse run URL`. page is the address on
// which the page is to be served.
func Machine(page string) []Finding {
	system := runtime.GOOS + "/" + runtime.GOARCH
	if err := spec.CheckMeasures(); err != nil {
		return []Finding{found("system", "", Warn, fmt.Errorf("%s: %w", system, err)), servable(page)}
	}
	return []Finding{
		{Check: "system", Level: OK, Found: fmt.Sprintf("%s, %d processors", system, runtime.NumCPU())},
		found("clock", "synchronised", Warn, clockSynchronised()),
		scheduler(),
		found("open files", fmt.Sprintf("%d or more are allowed", files), Warn,
			spec.CheckFileLimit("a Service that stalls", files, "--rate or --timeout")),
		servable(page),
	}
}

// scheduler reports whether the kernel lets the prober run sooner beside busy processes.
func scheduler() Finding {
	if loadgen.GrantsShortSlices() {
		return Finding{Check: "scheduler", Level: OK, Found: "grants short time slices"}
	}
	return Finding{
		Check: "scheduler", Level: Warn,
		Found: "grants no short time slices: beside busy processes more requests are late",
		Fix:   "Linux 6.12 or newer grants them; else keep this machine idle, or measure from the cluster",
	}
}

// servable reports whether the page can be served on an address.
func servable(page string) Finding {
	listener, err := net.Listen("tcp", page)
	if err == nil {
		err = listener.Close()
	}
	return found("page", page+" is free", Warn, hint.Add("give another address: --dashboard 127.0.0.1:0", err))
}
