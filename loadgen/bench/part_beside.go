package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

const besideRate = 500

// neighbours is the number of busy processes that run beside the tools.
const neighbours = 4

// usualSlice is the whole program without its wish for a short slice.
var usualSlice = tool{name: "`lapse run` without the short slice", command: func(b bench, l load) []string {
	args := lapseCommand(b, l)
	args[0] = b.lapseUsual
	return args
}, read: readTimeline}

// besideTools are those that are held against each other on a busy machine.
var besideTools = []tool{hey, vegeta, fortio, usualSlice, lapseRun}

func besideFigures() []figure {
	return []figure{
		{"behind its due instant p50, in the server's kernel, ms", 2, behindAt(0.5), "", nil},
		{"behind p99, ms", 1, behindAt(0.99), "", nil},
		{"longest gap between two arrivals, ms", 0,
			func(r *result) float64 { return longestGap(middle(kernel(&r.server))).Seconds() * 1000 }, "", nil},
		{"time in gaps longer than 10 ms, %", 2, gapsOver(10 * time.Millisecond), "", nil},
		{"CPU of the tool, % of one core", 0,
			func(r *result) float64 { return 100 * r.cpu.Seconds() / r.length.Seconds() }, "", nil},
		{"coverage by its own word, %", 2, func(r *result) float64 { return 100 * r.Coverage }, "", nil},
	}
}

func behindAt(p float64) func(*result) float64 {
	return func(r *result) float64 {
		return percentile(behind(middle(kernel(&r.server)), time.Second/besideRate), p).Seconds() * 1000
	}
}

func gapsOver(limit time.Duration) func(*result) float64 {
	return func(r *result) float64 { return 100 * inGaps(middle(kernel(&r.server)), limit) }
}

// runBeside makes runs of every tool, in turn, beside busy processes.
func runBeside(ctx context.Context, b *bench, page *page, _ *settings) error {
	t := trial{load: load{Rate: besideRate, Connections: peerConnections, For: min(b.length, 10*time.Second), CPU: -1},
		record: true}
	results, err := b.beside(ctx, t)
	if err != nil {
		return err
	}
	page.Beside = besideTable(results)
	return nil
}

func (b *bench) beside(ctx context.Context, t trial) (results map[string][]result, err error) {
	var busy []*exec.Cmd
	defer func() {
		for _, cmd := range busy {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		}
	}()
	for range neighbours {
		cmd := exec.CommandContext(ctx, b.self, "--role", "busy")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		busy = append(busy, cmd)
	}
	return b.compare(ctx, t, besideTools)
}

// besideTable has a row for each figure and a column for each tool.
func besideTable(results map[string][]result) string {
	head := []string{fmt.Sprintf("beside %d busy processes", neighbours)}
	for _, t := range besideTools {
		head = append(head, t.name)
	}
	var rows [][]string
	for _, f := range besideFigures() {
		row := []string{f.name}
		for _, t := range besideTools {
			cell := f.spreadOver(results[t.name]).format(f.digits)
			if f.name == "coverage by its own word, %" && t.read == nil {
				cell = "–" // the peers know of none
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return table(head, rows)
}

// behind is how late each arrival is, sorted, against an even grid of the whole run. The grid's phase is where most
// arrivals are, as most are on time. From the last to the first, each is given the latest instant before it that no
// later one was given:
//
//	instants   |    |    |    |    |    |
//	arrivals   .    .          ... .    .     three were held up, none is missing
//	arrivals   .    .            . .    .     one was held up, two were not sent: nobody else is late for that
//
// So what was not sent makes nothing late; it shows as a gap.
func behind(arrivals []time.Duration, interval time.Duration) []time.Duration {
	arrivals = slices.Sorted(slices.Values(arrivals))
	phase := phaseOf(arrivals, interval)
	late := make([]time.Duration, 0, len(arrivals))
	next := time.Duration(1 << 62)
	for _, a := range slices.Backward(arrivals) {
		at := min((a-phase)/interval, next-1)
		late = append(late, a-phase-at*interval)
		next = at
	}
	slices.Sort(late)
	return late
}

// phaseOf is where in the interval most arrivals begin to be, to a twentieth of it.
func phaseOf(arrivals []time.Duration, interval time.Duration) time.Duration {
	const bins = 20
	var counts [bins]int
	for _, a := range arrivals {
		counts[a%interval*bins/interval]++
	}
	most := 0
	for i, n := range counts {
		if n > counts[most] {
			most = i
		}
	}
	return time.Duration(most) * interval / bins
}

// longestGap is the longest time between two arrivals.
func longestGap(arrivals []time.Duration) (longest time.Duration) {
	for _, gap := range gaps(arrivals) {
		longest = max(longest, gap)
	}
	return longest
}

// inGaps is the share of the time that lies in gaps between arrivals longer than limit.
func inGaps(arrivals []time.Duration, limit time.Duration) float64 {
	long, all := time.Duration(0), time.Duration(0)
	for _, gap := range gaps(arrivals) {
		all += gap
		if gap > limit {
			long += gap
		}
	}
	return float64(long) / float64(max(all, 1))
}

func gaps(arrivals []time.Duration) (list []time.Duration) {
	arrivals = slices.Sorted(slices.Values(arrivals))
	for i := 1; i < len(arrivals); i++ {
		list = append(list, arrivals[i]-arrivals[i-1])
	}
	return list
}
