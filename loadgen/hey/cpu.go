package hey

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A cpuMeter measures which share of the processors was in use, from 0 to 1.
type cpuMeter struct {
	begun     time.Time
	used      time.Duration
	busy, all float64
	once      sync.Once

	process float64 // by this process, of those it may use; set by stop, like machine
	machine float64 // by anything, of all; 0 if not known
}

func startMeter() *cpuMeter {
	m := &cpuMeter{begun: time.Now(), used: cpuUsed()}
	m.busy, m.all, _ = cpuTimes()
	return m
}

// stop ends the span that counts. Later calls wait for the first.
func (m *cpuMeter) stop() {
	m.once.Do(func() {
		m.process = float64(cpuUsed()-m.used) / float64(time.Since(m.begun)) / float64(runtime.GOMAXPROCS(0))
		if busy, all, ok := cpuTimes(); ok && all > m.all && m.all > 0 {
			m.machine = (busy - m.busy) / (all - m.all)
		}
	})
}

// cpuTimes returns how long all processors were busy, and how long they were there, in some unit; false where it is not
// Linux.
func cpuTimes() (busy, all float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	return parseCPUTimes(string(text))
}

// parseCPUTimes reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal
// (https://man7.org/linux/man-pages/man5/proc_stat.5.html). What a hypervisor stole is not ours to use: busy.
func parseCPUTimes(stat string) (busy, all float64, ok bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, field := range fields[1:min(len(fields), 9)] { // guests are part of user and nice
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, false
		}
		all += ticks
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return busy, all, true
}
