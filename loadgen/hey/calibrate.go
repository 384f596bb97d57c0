package hey

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"lapse/loadgen"
)

// This file loads a target to its limit for a short time, to find out what it can answer: a ladder of closed-loop
// steps, each with twice the workers of the one before, and then repetitions of the best, whose median is the capacity.

const (
	shortestStep = time.Second
	longestStep  = 2 * time.Second
	stepRequests = 100_000 // at most, in a step on kept connections
	// at most, in a step with a connection for each: each takes a local port, for a minute
	perRequestRequests = 4_000
	// steps at the limit; the median lies between the least and the most of 5 in 94 % of cases
	repeats           = 5
	perRequestRepeats = 3
	stepTimeout       = 10 // seconds, hey counts in whole ones

	worthwhile = 1.10 // a doubling of the workers that raises the throughput by less than this factor did not help
	allBusy    = 0.95 // share of this machine's processors in use from which on they may have been the limit

	// probeCost is the share of a target's capacity that its probes may take.
	probeCost = 0.01
)

// stepOutput keeps results in their order, so that Lats, Offsets and StatusCodes belong together.
const stepOutput = `{"Lats":{{jsonify .Lats}},"Offsets":{{jsonify .Offsets}},` +
	`"StatusCodes":{{jsonify .StatusCodes}},"ErrorDist":{{jsonify .ErrorDist}}}`

// CalibrateConfig says what to load, and how much at most.
type CalibrateConfig struct {
	Probe    loadgen.Probe // URL, Host and Header, and Method
	Duration time.Duration // all steps together; requests under way are cut off within a second more
	Workers  int           // the most connections at once
	Progress func(Step)    // called as each step ends; nil: not
}

// A Step is one closed-loop measurement: Workers send, each its next request when the last one has ended.
type Step struct {
	Workers    int  `json:"workers"`
	PerRequest bool `json:"perRequest"` // a connection for each request, not kept ones
	// of the part that counts: without the warm-up and the end, in which some have no work
	Duration time.Duration `json:"duration"`
	Requests int           `json:"requests"`       // good replies in that part
	Rate     float64       `json:"rate"`           // Requests ÷ Duration, per second
	P50      time.Duration `json:"p50,omitzero"`   // of all good replies, from when they were sent
	P99      time.Duration `json:"p99,omitzero"`   //
	Failed   int           `json:"failed"`         // requests without a reply, or with a status of 400 and more
	Error    string        `json:"error,omitzero"` // the commonest of these
	// requests cut off without a reply a second after the step's end
	Unanswered int `json:"unanswered,omitzero"`
	// share of the processors that this process used, 0 to 1; absent if not known
	CPU float64 `json:"cpu,omitzero"`
	// share of this machine's processors in use; absent if not known
	Machine float64 `json:"machine,omitzero"`
}

// good reports whether a step says something about the target's capacity.
func (s Step) good() bool { return s.Failed == 0 && s.Rate > 0 }

// A Capacity is what the target answered at its limit, in requests per second, over several steps. It is zero where
// it is not known.
type Capacity struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Steps  int     `json:"steps"`
}

// A Suggestion is a rate that costs the target no more than [probeCost] of what it can answer.
type Suggestion struct {
	Targets []string `json:"targets"` // what a run starts, each at this rate
	Rate    float64  `json:"rate"`    // requests per second, for each
	// an outage of all requests shorter than this can go unseen at a target
	DetectionLimit time.Duration `json:"detectionLimit"`
}

// A Calibration is what a target can answer, and what to measure it with.
type Calibration struct {
	Ladder []Step `json:"ladder"` // doubling workers, on kept connections
	// of the best, on kept connections, then on one for each request
	Repeats     []Step       `json:"repeats"`
	Kept        Capacity     `json:"kept,omitzero"`        // on kept connections
	PerRequest  Capacity     `json:"perRequest,omitzero"`  // with a connection for each request
	Suggestions []Suggestion `json:"suggestions,omitzero"` // none where a capacity is not known
	Notes       []string     `json:"notes,omitzero"`       // what the figures rest on, and what is missing
}

// Bound returns the most a calibration sends: steps, and requests in all.
func (c CalibrateConfig) Bound() (steps, requests int) {
	rungs := len(ladder(c.Workers))
	return rungs + repeats + perRequestRepeats, (rungs+repeats)*stepRequests + perRequestRepeats*perRequestRequests
}

// Check says what is wrong with c.
func (c CalibrateConfig) Check() error {
	if c.Workers < 1 || c.Workers > mostWorkers {
		return fmt.Errorf("%d workers: must be from 1 to %d", c.Workers, mostWorkers)
	}
	steps, _ := c.Bound()
	if least := time.Duration(steps) * shortestStep * 11 / 10; c.Duration < least {
		return fmt.Errorf("%v is too short for %d steps of at least %v: give it %v, or fewer workers", c.Duration,
			steps, shortestStep, least)
	}
	_, err := newLoad(Flags{}, c.Probe)
	return err
}

// ladder doubles the number of workers from 1 up to most.
func ladder(most int) []int {
	var rungs []int
	for n := 1; n < most; n *= 2 {
		rungs = append(rungs, n)
	}
	return append(rungs, most)
}

// Calibrate finds out what a target can answer. The error is for a target that does not answer well even a single
// worker, and for ctx.
func Calibrate(ctx context.Context, c CalibrateConfig) (Calibration, error) {
	if err := c.Check(); err != nil {
		return Calibration{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	if err := c.ask(bounded, stepTimeout*time.Second); err != nil {
		return Calibration{}, err
	}
	steps, _ := c.Bound()
	length := c.Duration * 10 / 11 / time.Duration(steps) // a tenth of the time is for what lies between steps
	found, err := c.find(bounded, min(max(length, shortestStep), longestStep), c.step)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return found, err
}

// ask sends a single request. It refuses a target that does not answer, and one that redirects: hey would follow, and
// load what nobody named. Other trouble shows in the first step.
func (c CalibrateConfig) ask(ctx context.Context, patience time.Duration) error {
	l, err := newLoad(Flags{Method: c.Probe.Method}, c.Probe)
	if err != nil {
		return err
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: l.server} // as hey does
	client := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := client.Do(l.request.WithContext(waiting))
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("it did not answer a single request within %v", patience)
	}
	if err != nil {
		return nil
	}
	reply.Body.Close()
	if to, err := reply.Location(); err == nil && reply.StatusCode/100 == 3 {
		return fmt.Errorf("it redirects (%d) to %s: calibrate that URL", reply.StatusCode, to.Redacted())
	}
	return nil
}

// A stepper takes a step of a length. It reports false where there is no time left for one.
type stepper func(ctx context.Context, length time.Duration, workers int, perRequest bool) (Step, bool, error)

// find climbs the ladder and repeats its best step.
func (c CalibrateConfig) find(ctx context.Context, length time.Duration, step stepper) (Calibration, error) {
	var found Calibration
	for _, workers := range ladder(c.Workers) {
		s, ok, err := step(ctx, length, workers, false)
		if err != nil {
			return found, err
		}
		if !ok {
			break
		}
		if found.Ladder = append(found.Ladder, s); !s.good() || levelled(found.Ladder) {
			break
		}
	}
	top := best(found.Ladder)
	if !top.good() {
		return found, unable(found.Ladder, length)
	}
	for i := range repeats + perRequestRepeats {
		s, ok, err := step(ctx, length, top.Workers, i >= repeats)
		if err != nil || !ok {
			return found.concluded(), err
		}
		found.Repeats = append(found.Repeats, s)
	}
	return found.concluded(), nil
}

// unable says why not even the first step went well.
func unable(ladder []Step, length time.Duration) error {
	switch {
	case len(ladder) == 0:
		return errors.New("there was no time for a step")
	case ladder[0].Failed > 0:
		return fmt.Errorf("at 1 at once, %d requests failed: %s", ladder[0].Failed, ladder[0].Error)
	}
	return fmt.Errorf("at 1 at once, nothing was answered within a step of %v", length.Round(time.Millisecond))
}

// levelled reports whether more workers are not worth trying: neither of the last two doublings brought a tenth more
// than the best before it.
//
//	rates 100 198 390 400 395   →   levelled: 400 and 395 are less than 390 × 1.1
func levelled(steps []Step) bool {
	n := len(steps)
	return n >= 3 && !gained(steps[:n-1]) && !gained(steps)
}

// gained reports whether the last step brought more.
func gained(steps []Step) bool {
	n := len(steps)
	return n == 1 || steps[n-1].Rate >= worthwhile*best(steps[:n-1]).Rate
}

// best returns the step with the highest throughput among those without a failure; a zero Step if there is none.
func best(steps []Step) Step {
	var top Step
	for _, s := range steps {
		if s.good() && s.Rate > top.Rate {
			top = s
		}
	}
	return top
}

// concluded adds the capacities to the steps, the rates that follow from them, and what they rest on.
func (c Calibration) concluded() Calibration {
	kept, perRequest := c.Repeats[:min(repeats, len(c.Repeats))], c.Repeats[min(repeats, len(c.Repeats)):]
	c.Kept, c.PerRequest = capacity(kept), capacity(perRequest)
	if c.Kept.Steps > 0 && c.PerRequest.Steps > 0 {
		for _, targets := range [][]string{{"new", "reused"}, {"new", "reused", "direct"}} {
			c.Suggestions = append(c.Suggestions, suggest(c.Kept.Min, c.PerRequest.Min, targets))
		}
	}
	busy := func(s Step) bool { return s.Machine >= allBusy }
	bad := func(s Step) bool { return !s.good() }
	last := c.Ladder[len(c.Ladder)-1]
	switch {
	case slices.ContainsFunc(c.Repeats, bad):
		c.Notes = append(c.Notes,
			"no rate is suggested: requests failed or stayed unanswered in some of the repeated steps. It may be "+
				"broken or have a quota; if it was too much, try fewer --max-workers")
	case len(perRequest) == 0:
		c.Notes = append(c.Notes,
			"no rate is suggested: there was no time for a step with a connection for each request. Try a longer "+
				"--duration")
	}
	switch {
	case last.Failed > 0:
		c.Notes = append(c.Notes, fmt.Sprintf("at %d at once, %d requests failed: %s", last.Workers, last.Failed,
			last.Error))
	case slices.ContainsFunc(c.Repeats, busy):
		c.Notes = append(c.Notes, "this machine's processors were all in use: the target may answer more")
	case !levelled(c.Ladder):
		c.Notes = append(c.Notes, fmt.Sprintf("%d workers did not reach its limit: the target may answer more",
			last.Workers))
	}
	return c
}

// capacity sums up repetitions of one step. It is not known where one of them was not good: what the target answered
// in the others it cannot go on answering.
func capacity(steps []Step) Capacity {
	if len(steps) == 0 || slices.ContainsFunc(steps, func(s Step) bool { return !s.good() }) {
		return Capacity{}
	}
	steps = slices.SortedFunc(slices.Values(steps), func(a, b Step) int { return cmp.Compare(a.Rate, b.Rate) })
	n := len(steps)
	median := (steps[(n-1)/2].Rate + steps[n/2].Rate) / 2
	return Capacity{Median: median, Min: steps[0].Rate, Max: steps[n-1].Rate, Steps: n}
}

// suggest divides what the probes may cost among them: a request on a kept connection costs the kept-th part of a
// second of the target's time, one on a connection of its own the perRequest-th. Both are capacities in requests per
// second.
func suggest(kept, perRequest float64, targets []string) Suggestion {
	cost := 0.0
	for _, t := range targets {
		if t == "reused" {
			cost += 1 / kept
		} else {
			cost += 1 / perRequest
		}
	}
	rate := roundDown(probeCost / cost)
	return Suggestion{Targets: targets, Rate: rate, DetectionLimit: time.Duration(math.Ceil(1e9 / rate))}
}

// roundDown keeps three digits.
func roundDown(x float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := math.Floor(x/step + 1e-9)
	if step >= 1 {
		return digits * step
	}
	return digits / math.Round(1/step) // exact where step itself is not
}

// step loads the target with workers.
func (c CalibrateConfig) step(
	ctx context.Context, length time.Duration, workers int, perRequest bool,
) (_ Step, ok bool, _ error) {
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(deadline) < length {
		return Step{}, false, nil
	}
	limit := stepRequests
	if perRequest {
		limit = perRequestRequests
	}
	limit -= limit % workers
	flags := Flags{Workers: workers, Timeout: stepTimeout, Method: c.Probe.Method, PerRequest: perRequest}
	l, err := newLoad(flags, c.Probe)
	if err != nil {
		return Step{}, false, err
	}
	stepping, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	meter := startMeter()
	context.AfterFunc(stepping, meter.stop)
	output := l.run(stepping, limit, stepOutput)
	meter.stop()
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Step{}, false, nil
	}
	s, err := readStep(l, output, length, limit)
	s.Workers, s.PerRequest, s.CPU, s.Machine = workers, perRequest, meter.process, meter.machine
	if err == nil && c.Progress != nil {
		c.Progress(s)
	}
	return s, err == nil, err
}

// readStep reads what hey wrote of a step of l in which limit requests could be made.
func readStep(l *load, output []byte, length time.Duration, limit int) (Step, error) {
	var raw struct {
		Lats, Offsets []float64 // seconds
		StatusCodes   []int
		ErrorDist     map[string]int64
	}
	if err := json.Unmarshal(output, &raw); err != nil {
		return Step{}, fmt.Errorf("hey's summary: %w", err)
	}
	if len(raw.Offsets) != len(raw.Lats) || len(raw.StatusCodes) != len(raw.Lats) {
		return Step{}, errors.New("hey's summary: its series differ in length")
	}
	failures := map[string]int64{}
	addErrors(failures, raw.ErrorDist)
	var begins, ends, took []time.Duration
	for i, code := range raw.StatusCodes {
		if code >= 400 {
			failures[fmt.Sprintf("status %d", code)]++
			continue
		}
		begin, lasted := seconds(raw.Offsets[i]), seconds(raw.Lats[i])
		begins, ends, took = append(begins, begin), append(ends, begin+lasted), append(took, lasted)
	}
	slices.Sort(ends)
	slices.Sort(took)
	from, to := countable(begins, ends, length, len(raw.Lats) >= limit)
	s := Step{Duration: to - from, Unanswered: int(l.unanswered(raw.ErrorDist)), P50: quantile(took, 0.5),
		P99: quantile(took, 0.99)}
	for _, end := range ends {
		if end > from && end <= to {
			s.Requests++
		}
	}
	if s.Duration > 0 {
		s.Rate = float64(s.Requests) / s.Duration.Seconds()
	}
	for text, n := range failures {
		s.Failed += int(n)
		if s.Error == "" || n > failures[s.Error] || n == failures[s.Error] && text < s.Error {
			s.Error = text
		}
	}
	return s, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// countable returns the part of a step that counts: all workers are at work in it. It begins when a fifth of the time
// is over, for connections are made and caches filled before; it ends with the step's time, or, where the number of
// requests was the limit, when nine in ten had been answered, for some workers have done all theirs then.
//
// begins and ends are when requests began and were answered, on one clock. ends are sorted.
func countable(begins, ends []time.Duration, length time.Duration, limited bool) (from, to time.Duration) {
	if len(begins) == 0 {
		return 0, 0
	}
	begin := slices.Min(begins)
	to = begin + length
	if limited {
		to = min(to, ends[len(ends)*9/10])
	}
	return begin + (to-begin)/5, to
}

// quantile returns the least of sorted values that at least the share q of all do not exceed; 0 if there is none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}
