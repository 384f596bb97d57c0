package run

import (
	"log/slog"
	"time"

	"lapse/correlate/model"
	"lapse/record"
	"lapse/timeline"
)

// A recording is the Observer that writes the run's file. It is in no queue: none of the facts may be lost. An error
// is reported once, and the run goes on in memory: what was measured still makes a report.
type recording struct {
	*record.Writer
	every   time.Duration // how often what was measured is put on disk
	flushed time.Duration // when it last was
	log     *slog.Logger
	err     error // the first
}

func (r *recording) Fact(f timeline.Fact) { r.keep(r.Append(f)) }
func (r *recording) Wants() Detail        { return Seldom }
func (r *recording) Judged(Judgement)     {}

// flushDue puts what was measured on record when it is time to. A refresh may come a little early, and the block is
// not to wait for the next one.
func (r *recording) flushDue(now time.Duration) {
	if now-r.flushed > r.every-refresh/2 {
		r.flushed = now
		r.keep(r.Flush())
	}
}

// Close does nothing to a recording that [recording.end] has ended.
func (r *recording) Close(*model.Timeline) { r.end() }

// end writes what is left. Its length and checksum are final then.
func (r *recording) end() { r.keep(r.Writer.Close()) }

func (r *recording) keep(err error) {
	if err != nil && r.err == nil {
		r.err = err
		r.log.Error("the recording is incomplete from here on; the report is not", "error", err)
	}
}
