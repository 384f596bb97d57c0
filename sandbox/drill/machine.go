package drill

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// LoadAverage is the machine's load over the last minute, as text.
func LoadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return "unknown"
}

// Machine says on what something was measured.
func Machine() string {
	kernel, err := exec.Command("uname", "-srm").Output()
	if err != nil {
		kernel = []byte("kernel unknown")
	}
	return fmt.Sprintf("%s, %d cores, %s", strings.TrimSpace(string(kernel)), runtime.NumCPU(), runtime.Version())
}

// Spread gives minimum, median and maximum.
func Spread(values []float64, digits int) string {
	if len(values) == 0 {
		return "–"
	}
	values = slices.Sorted(slices.Values(values))
	median := (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	return f(values[0]) + " / " + f(median) + " / " + f(values[len(values)-1])
}
