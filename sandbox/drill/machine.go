package drill

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// LoadAverage returns the machine's load over the last minute, as text.
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
