package live

import (
	"log/slog"
	"time"

	"lapse/correlate/model"
	"lapse/internal/record"
	"lapse/timeline"
)

// A Recording is the Observer that writes the run's file. It is behind no queue, so that no fact is lost. An error is
// logged once, and the run goes on in memory: the report is still whole.
type Recording struct {
	*record.Writer
	Every   time.Duration // how often what was measured is put on disk
	flushed time.Duration // when it last was
	Log     *slog.Logger
	Err     error // the first
}

func (r *Recording) Fact(f timeline.Fact) { r.keep(r.Append(f)) }
func (r *Recording) Wants() Detail        { return Seldom }
func (r *Recording) Judged(Judgement)     {}

// FlushDue writes a block to the file when it is due. A refresh may come a little early: the block does not wait for
// the next one.
func (r *Recording) FlushDue(now time.Duration) {
	if now-r.flushed > r.Every-Refresh/2 {
		r.flushed = now
		r.keep(r.Flush())
	}
}

// Close ends the recording, if [Recording.End] has not.
func (r *Recording) Close(*model.Timeline) { r.End() }

// End writes what is left. Its length and checksum are final then.
func (r *Recording) End() { r.keep(r.Writer.Close()) }

func (r *Recording) keep(err error) {
	if err != nil && r.Err == nil {
		r.Err = err
		r.Log.Error("the recording is incomplete from here on; the report is not", "error", err)
	}
}
