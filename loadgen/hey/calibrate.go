package hey

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"lapse/loadgen"
)

// This file loads a target to its limit for a short time, through rakyll/hey's requester, to see what it can answer.

const (
	shortestStep  = time.Second
	longestStep   = 2 * time.Second
	stepRequests  = 100_000 // at most, in a step on kept connections
	freshRequests = 4_000   // at most, in a step on fresh ones: each takes a local port, which stays taken for a minute
	repeats       = 5       // steps at the limit; the median lies between the least and the most of 5 in 94 % of cases
	freshRepeats  = 3
	stepTimeout   = 10 // seconds, hey counts in whole ones
)

// stepOutput is like heyOutput; results keep their order, so that Lats and Offsets belong together.
const stepOutput = `{"Lats":{{jsonify .Lats}},"Offsets":{{jsonify .Offsets}},"StatusCodes":{{jsonify .StatusCodes}},"ErrorDist":{{jsonify .ErrorDist}}}`

// CalibrateConfig says what to load, and how much at most.
type CalibrateConfig struct {
	Probe    loadgen.Probe // URL, Host and Header, and Method
	Duration time.Duration // all steps together; requests under way are cut off within a second more
	Workers  int           // the most connections at once
	Told     func(Step)    // told of each step as it ends; nil: nobody
}

// A Calibration is what a target can answer, and what to measure it with.
type Calibration struct {
	Ladder      []Step       `json:"ladder"`      // doubling workers, on kept connections
	Repeats     []Step       `json:"repeats"`     // at the limit, on kept connections, then on fresh ones
	Knee        int          `json:"knee"`        // the fewest workers that reach 90 % of the highest throughput
	Kept        Throughput   `json:"kept"`        // capacity on kept connections
	Fresh       Throughput   `json:"fresh"`       // capacity with a connection for each request
	Stopped     string       `json:"stopped"`     // why no more workers were tried
	Suggestions []Suggestion `json:"suggestions"` // none where what a request costs is not known
}

// Bound is the most a calibration sends: steps, and requests in all.
func (c CalibrateConfig) Bound() (steps, requests int) {
	rungs := len(ladder(c.Workers))
	return rungs + repeats + freshRepeats, (rungs+repeats)*stepRequests + freshRepeats*freshRequests
}

// Check says what is wrong with c.
func (c CalibrateConfig) Check() error {
	if c.Workers < 1 || c.Workers > mostWorkers {
		return fmt.Errorf("%d workers: must be from 1 to %d", c.Workers, mostWorkers)
	}
	steps, _ := c.Bound()
	if least := time.Duration(steps) * shortestStep * 11 / 10; c.Duration < least {
		return fmt.Errorf("%v is too short for %d steps of at least %v: give it %v, or fewer workers", c.Duration, steps, shortestStep, least)
	}
	_, err := newHammer(HammerFlags{}, c.Probe)
	return err
}

// Calibrate finds out what a target can answer: it doubles the number of workers until that brings no more, and repeats
// the best step. The error is for a target that does not answer well even a single worker, and for ctx.
func Calibrate(ctx context.Context, c CalibrateConfig) (Calibration, error) {
	if err := c.Check(); err != nil {
		return Calibration{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	k := calibrator{CalibrateConfig: c, patience: stepTimeout * time.Second, length: c.stepLength()}
	found, err := k.run(bounded)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return found, err
}

// stepLength leaves a tenth of the time for what lies between steps.
func (c CalibrateConfig) stepLength() time.Duration {
	steps, _ := c.Bound()
	return min(max(c.Duration*10/11/time.Duration(steps), shortestStep), longestStep)
}

// A calibrator is a calibration under way.
type calibrator struct {
	CalibrateConfig
	patience time.Duration // for the first answer
	length   time.Duration // of a step
	load     func(ctx context.Context, workers int, fresh bool) (Step, bool, error)
	found    Calibration
}

func (k *calibrator) run(ctx context.Context) (Calibration, error) {
	if err := k.ask(ctx); err != nil {
		return k.found, err
	}
	k.load = k.step
	return k.find(ctx)
}

// find decides which steps to take, and what follows from them.
func (k *calibrator) find(ctx context.Context) (Calibration, error) {
	if err := k.climb(ctx); err != nil {
		return k.found, err
	}
	f := &k.found
	top := best(f.Ladder)
	if top.Rate == 0 {
		return *f, errors.New(f.Stopped)
	}
	kept, err := k.repeat(ctx, top.Workers, repeats, false)
	if err != nil {
		return *f, err
	}
	fresh, err := k.repeat(ctx, top.Workers, freshRepeats, true)
	if err != nil {
		return *f, err
	}
	f.Repeats = slices.Concat(kept, fresh)
	k.conclude(append(kept, top), fresh)
	return *f, nil
}

// ask sends a single request. It refuses a target that answers nothing in all our patience, and one that sends elsewhere: hey
// would follow, and load what nobody named. (It can be told not to, but then each of its workers writes to the client they
// share.) Other trouble shows in the first step.
func (k *calibrator) ask(ctx context.Context) error {
	h, err := newHammer(HammerFlags{Method: k.Probe.Method}, k.Probe)
	if err != nil {
		return err
	}
	client := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: h.server}}, // as hey does
	}
	waiting, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	reply, err := client.Do(h.request.WithContext(waiting))
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("it did not answer a single request within %v", k.patience)
	}
	if err != nil {
		return nil
	}
	reply.Body.Close()
	if to, err := reply.Location(); err == nil && reply.StatusCode/100 == 3 {
		return fmt.Errorf("it answers %d and sends to %s: calibrate that", reply.StatusCode, to.Redacted())
	}
	return nil
}

// climb takes step after step, each with twice the workers.
func (k *calibrator) climb(ctx context.Context) error {
	f := &k.found
	f.Stopped = fmt.Sprintf("the limit of %d workers was reached", k.Workers)
	for _, workers := range ladder(k.Workers) {
		s, ok, err := k.load(ctx, workers, false)
		if err != nil || !ok {
			f.Stopped = "time was over"
			return err
		}
		f.Ladder = append(f.Ladder, s)
		switch {
		case s.Requests == 0 && s.Failed == 0:
			f.Stopped = fmt.Sprintf("at %d at once, nothing was answered within a step of %v", workers, k.length.Round(time.Millisecond))
			return nil
		case s.Failed > 0:
			f.Stopped = fmt.Sprintf("at %d at once, %d requests failed: %s", workers, s.Failed, s.Error)
			return nil
		case enough(f.Ladder):
			f.Stopped = ""
			return nil
		}
	}
	return nil
}

// repeat takes the same step several times, fewer if time is over.
func (k *calibrator) repeat(ctx context.Context, workers, times int, fresh bool) ([]Step, error) {
	var steps []Step
	for range times {
		s, ok, err := k.load(ctx, workers, fresh)
		if err != nil || !ok {
			return steps, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// conclude works out the capacity, and the rates it allows.
func (k *calibrator) conclude(kept, fresh []Step) {
	f := &k.found
	f.Knee, f.Kept, f.Fresh = knee(f.Ladder), throughput(kept), throughput(fresh)
	if f.Kept.Broken == "" {
		f.Kept.AtLeast = strings.Trim(f.Kept.AtLeast+"; "+f.Stopped, "; ")
	}
	if f.Kept.Broken != "" || f.Fresh.Broken != "" || f.Fresh.Steps == 0 {
		return // what a request costs is not known
	}
	for _, targets := range [][]string{{"new", "reused"}, {"new", "reused", "direct"}} {
		f.Suggestions = append(f.Suggestions, suggest(f.Kept.Min, f.Fresh.Min, targets...))
	}
}

// step loads the target with workers for the length of a step. It is false where there is no time for one.
func (k *calibrator) step(ctx context.Context, workers int, fresh bool) (Step, bool, error) {
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(deadline) < k.length {
		return Step{}, false, nil
	}
	limit := stepRequests
	if fresh {
		limit = freshRequests
	}
	flags := HammerFlags{Workers: workers, Timeout: stepTimeout, Method: k.Probe.Method, DisableKeepAlives: fresh}
	h, err := newHammer(flags, k.Probe)
	if err != nil {
		return Step{}, false, err
	}
	stepping, cancel := context.WithTimeout(ctx, k.length)
	defer cancel()
	meter := startMeter()
	context.AfterFunc(stepping, meter.stop)
	output := h.load(stepping, limit, stepOutput)
	meter.stop()
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Step{}, false, nil
	}
	s, err := readStep(output, k.length, limit/workers*workers)
	s.Unanswered -= int(h.unsent.Load())
	s.Workers, s.Fresh, s.CPU, s.Machine = workers, fresh, meter.share, meter.machines
	if err == nil && k.Told != nil {
		k.Told(s)
	}
	return s, err == nil, err
}

// readStep reads what hey wrote of a step in which limit requests could be made.
func readStep(output []byte, length time.Duration, limit int) (Step, error) {
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
	from, to := countable(begins, ends, length, len(raw.Lats) >= limit)
	s := Step{Duration: to - from, Requests: answeredIn(ends, from, to), Unanswered: int(cutOff(raw.ErrorDist)), P50: quantile(took, 0.5), P99: quantile(took, 0.99)}
	if s.Duration > 0 {
		s.Rate = float64(s.Requests) / s.Duration.Seconds()
	}
	for _, n := range failures {
		s.Failed += int(n)
	}
	s.Error = commonest(failures)
	return s, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// quantile is the least value that at least the share q of all do not exceed; 0 if there is none.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// commonest is the most frequent of counted texts.
func commonest(counts map[string]int64) string {
	most := ""
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		if most == "" || counts[text] > counts[most] {
			most = text
		}
	}
	return most
}
