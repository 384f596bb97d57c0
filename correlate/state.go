package correlate

import (
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// runState is what is known of the run as a whole.
type runState struct {
	ended   *timeline.Event
	closed  bool   // no fact will come any more
	damage  string // why the record is not whole
	command *model.Command
	hammer  *model.Hammer
}

// live reports whether more facts may come.
func (r *runState) live() bool { return r.ended == nil && !r.closed }

func (r *runState) commandChanged(e timeline.Event) {
	c := model.Command{}
	if r.command != nil {
		c = *r.command
	}
	switch e.To {
	case "running":
		c.Start, c.Args = new(e.Seen), timeline.SplitCommand(e.Detail)
	case "exited":
		c.End, c.ExitCode = new(e.Seen), e.ExitCode
	}
	r.command = &c
}

// end returns when the run ended; while it is live, how far it has come. Of a recording that ends before its run
// did, it is the last instant on record: whether the run went on, and for how long, is not known.
func (t *Tracker) end() time.Duration {
	if t.ended != nil {
		return t.clocks.At(t.ended.Source, t.ended.Seen).Latest
	}
	now, _ := t.come()
	return now
}

// fromWorkstation reports whether the workstation may have recorded an event, which then says nothing of the prober
// in the cluster: what the command did, and that the prober was lost.
func fromWorkstation(e timeline.Event) bool {
	return e.Kind == timeline.RunPhase && e.Writer != "" || e.Kind == timeline.Command ||
		e.Kind == timeline.CommandOutput || e.Kind == timeline.DeletionAsked
}
