package drill

import (
	"fmt"
	"os/exec"
	"time"
)

// Busy starts a process that keeps one core busy, until end is called. The kernel ends it at the latest when it
// has used so much of a core.
func Busy(atMost time.Duration) (end func(), err error) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -t %d; while :; do :; done", int(atMost.Seconds())))
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a busy process: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // that it was killed
	}, nil
}
