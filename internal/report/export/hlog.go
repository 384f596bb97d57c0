package export

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lapse/correlate/align"
	"lapse/timeline"
)

var hlogFormat = Format{
	Name:  "hlog",
	Doc:   "an HdrHistogram log: latency from due, per target and second, in nanoseconds",
	Ext:   "hlog",
	Write: writeLatencies,
}

// hlogInterval is how much time one histogram of [writeLatencies] covers.
const hlogInterval = time.Second

// writeLatencies writes a run's latencies in HdrHistogram's log format: a histogram per target and second
// with at least one answer, tagged with the target's name. Latency counts from when a request was due
// (so no correction for coordinated omission is to be added), of requests that ended ok and were not delayed
// by the prober, and each counts in the second of the run's clock in which it was due. Values are nanoseconds with 3
// significant digits.
//
// It reads the run's batches once and holds the seconds that may still get answers. An answer that
// comes later than that gets a line of its own for its second; tools add them up. If the batches end
// with an error it is returned, and what lay before it was written.
func writeLatencies(w io.Writer, run timeline.Run) error {
	buffered := bufio.NewWriter(w)
	l := newLatencyLog(buffered, run)
	err := l.header()
	if err == nil {
		err = l.batches(run.Batches)
	}
	if ferr := buffered.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("write the log: %w", ferr)
	}
	return err
}

// A latencyLog is under way. A slot is an interval's number.
type latencyLog struct {
	log    *hdrhistogram.HistogramLogWriter
	run    timeline.Run
	clocks *align.Clocks
	source map[timeline.TargetID]timeline.SourceID
	tags   map[timeline.TargetID]string
	open   map[int64]map[timeline.TargetID][]time.Duration // latencies by slot and target
	newest time.Duration                                   // the latest due instant
	// how long after its due instant a request may still be handed on
	wait time.Duration
	hist *hdrhistogram.Histogram
}

func newLatencyLog(w io.Writer, run timeline.Run) *latencyLog {
	l := &latencyLog{
		log: hdrhistogram.NewHistogramLogWriter(w), run: run, clocks: clocksOf(run),
		source: map[timeline.TargetID]timeline.SourceID{}, tags: map[timeline.TargetID]string{},
		open: map[int64]map[timeline.TargetID][]time.Duration{},
		hist: hdrhistogram.New(1000, int64(time.Hour), 3),
	}
	for _, t := range run.Targets {
		l.tags[t.ID], l.source[t.ID] = tag(t.Name), t.Source
		l.wait = max(l.wait, t.Timeout+2*hlogInterval)
	}
	return l
}

// tag is a name without what the log format has a meaning for: "web new" → "web_new".
func tag(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == ',' || r == '\x7f' {
			return '_'
		}
		return r
	}, name)
}

func (l *latencyLog) header() error {
	start := l.run.Meta.T0.UnixMilli()
	lines := []func() error{
		func() error {
			return l.log.OutputComment("[Lapse: latency from due of requests that ended ok, not delayed by Lapse, " +
				"in nanoseconds]")
		},
		l.log.OutputLogFormatVersion,
		func() error { return l.log.OutputStartTime(start) },
	}
	for _, t := range l.run.Targets {
		if text := l.clockError(t); text != "" {
			lines = append(lines, func() error { return l.log.OutputComment(text) })
		}
	}
	lines = append(lines, l.log.OutputLegend)
	for _, line := range lines {
		if err := line(); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
	}
	return nil
}

// clockError says how far the instants of a target may be off, because its source has a clock of its own; "" if it has
// the run's.
func (l *latencyLog) clockError(t timeline.Target) string {
	off := time.Duration(0)
	for _, sync := range l.run.Syncs {
		if sync.Source == t.Source {
			off = max(off, l.clocks.Place(t.Source, sync.At, sync.At, sync.At).Error)
		}
	}
	if off == 0 {
		return ""
	}
	return fmt.Sprintf("[clock_error of %s: %d ns]", tag(t.Name), off)
}

func (l *latencyLog) batches(batches iter.Seq2[timeline.Batch, error]) error {
	for batch, err := range batches {
		if err == nil {
			l.add(batch.Requests)
			err = l.emit(l.slot(l.newest - l.wait))
		} else if werr := l.emit(l.slot(l.newest) + 1); werr != nil {
			err = werr
		}
		if err != nil {
			return err
		}
	}
	return l.emit(l.slot(l.newest) + 1)
}

func (l *latencyLog) slot(at time.Duration) int64 {
	if at < 0 {
		at -= hlogInterval - 1
	}
	return int64(at / hlogInterval)
}

func (l *latencyLog) add(requests []timeline.Request) {
	for _, r := range requests {
		due := l.clocks.Place(l.source[r.Target], r.Due, r.Sent, r.Done).Due
		l.newest = max(l.newest, due)
		if r.Class != timeline.OK || r.Delayed {
			continue
		}
		slot := l.slot(due)
		if l.open[slot] == nil {
			l.open[slot] = map[timeline.TargetID][]time.Duration{}
		}
		l.open[slot][r.Target] = append(l.open[slot][r.Target], r.Latency())
	}
}

// emit writes the slots before one, and forgets them.
func (l *latencyLog) emit(before int64) error {
	if len(l.open) == 0 {
		return nil
	}
	for _, slot := range slices.Sorted(maps.Keys(l.open)) {
		if slot >= before {
			break
		}
		for _, target := range slices.Sorted(maps.Keys(l.open[slot])) {
			if err := l.line(slot, target, l.open[slot][target]); err != nil {
				return err
			}
		}
		delete(l.open, slot)
	}
	return nil
}

func (l *latencyLog) line(slot int64, target timeline.TargetID, latencies []time.Duration) error {
	l.hist.Reset()
	for _, d := range latencies {
		if err := l.hist.RecordValue(int64(d)); err != nil {
			return fmt.Errorf("a latency of %v does not fit into the log: %w", d, err)
		}
	}
	start := l.run.Meta.T0.UnixMilli() + slot*hlogInterval.Milliseconds()
	l.hist.SetStartTimeMs(start)
	l.hist.SetEndTimeMs(start + hlogInterval.Milliseconds())
	l.hist.SetTag(l.tags[target])
	if err := l.log.OutputIntervalHistogram(l.hist); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}
