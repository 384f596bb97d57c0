package correlate

import (
	"cmp"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// settings say how the run is judged: by the options, else as it was asked to.
type settings struct {
	opts Options
	meta timeline.Meta
}

func (s *settings) join() time.Duration { return cmp.Or(s.opts.Join, s.meta.Options.Join, time.Second) }

// slow returns --slow; 0 if it was not given: then it depends on what the target takes, see slowFinder.
func (s *settings) slow() time.Duration { return cmp.Or(s.opts.Slow, s.meta.Options.Slow) }

// resolution returns --resolution; 0 if it was not given: then it depends on the target, see gapLimit.
func (s *settings) resolution() time.Duration {
	return cmp.Or(s.opts.Resolution, s.meta.Options.Resolution)
}

func (s *settings) minCoverage() float64 {
	return cmp.Or(s.opts.MinCoverage, s.meta.Options.MinCoverage, model.MinCoverage)
}

// planned returns how long the run was to take; 0 if that depends on its command.
func (s *settings) planned() time.Duration {
	o := s.meta.Options
	if o.Duration <= 0 {
		return 0
	}
	return o.Baseline + o.Duration + o.Settle
}
