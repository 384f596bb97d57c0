package hey

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lapse/loadgen"
	"lapse/timeline"
)

// hey keeps eight series of every result, sorts them at the end, and stops keeping them at a million. So a long load is
// made in rounds, whose results are merged here.
const (
	roundSize    = 200_000         // requests per round
	mostErrors   = 50              // distinct error texts kept in the summary
	longestReply = 2 * time.Minute // longer ones count as this in the latency distribution
	otherErrors  = "other errors"
)

// roundOutput has hey write its results as JSON: only what is a number even when all requests failed (an average is
// NaN then).
const roundOutput = `{"Lats":{{jsonify .Lats}},"StatusCodeDist":{{jsonify .StatusCodeDist}},` +
	`"ErrorDist":{{jsonify .ErrorDist}},"SizeTotal":{{jsonify .SizeTotal}},"NumRes":{{jsonify .NumRes}}}`

// HammerConfig says what to load and how.
type HammerConfig struct {
	Args  string        // hey's flags, see [ParseFlags]
	Probe loadgen.Probe // what the probes ask: URL, Host, Header and a direct target's Addr are taken from here
	Clock timeline.Clock
	Sink  func(timeline.Fact) // takes the two Hammer events; called by this goroutine
}

// Summary is the result of the background load, with the names and units of hey's own report: times are in seconds.
type Summary struct {
	Total  float64 // how long it ran
	NumRes int64   // requests that ended, well or not
	Rps    float64 // NumRes ÷ Total

	Unanswered int64 `json:",omitzero"` // requests cut off a second after the end; they are not in NumRes

	Average float64 `json:",omitzero"` // of replies, like what follows
	Fastest float64 `json:",omitzero"`
	Slowest float64 `json:",omitzero"`

	LatencyDistribution []Latency        `json:",omitempty"`
	StatusCodeDist      map[int]int64    `json:",omitempty"`
	ErrorDist           map[string]int64 `json:",omitempty"` // by text, without local ports
	SizeTotal           int64            `json:",omitzero"`  // bytes of the bodies whose length was announced
}

// Latency: so many percent of the replies took at most Latency seconds.
type Latency struct {
	Percentage float64
	Latency    float64
}

// Hammer puts background load on what probe asks until ctx ends, -z has passed or -n requests were made. It emits two
// Hammer events: its begin, and its end with the summary or an error. So a load that was asked for and failed is on
// the record too.
func Hammer(ctx context.Context, c HammerConfig) error {
	c.Sink(timeline.Event{Kind: timeline.Hammer, Seen: c.Clock.Now(), To: "running", Detail: Public(c.Args)})
	summary, err := hammerRun(ctx, c)
	if err != nil {
		err = fmt.Errorf("hammer: %w", err)
	}
	c.Sink(timeline.Event{Kind: timeline.Hammer, Seen: c.Clock.Now(), To: "ended", Detail: detail(summary, err)})
	return err
}

func hammerRun(ctx context.Context, c HammerConfig) (Summary, error) {
	flags, err := ParseFlags(c.Args)
	if err != nil {
		return Summary{}, err
	}
	l, err := newLoad(flags, c.Probe)
	if err != nil {
		return Summary{}, err
	}
	if flags.Duration > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, flags.Duration)
		defer cancel()
	}
	begun, results := c.Clock.Now(), newResults()
	for left := flags.total(); left > 0 && ctx.Err() == nil; {
		n := roundOf(left, flags.Workers)
		if err := results.add(l, l.run(ctx, n, roundOutput)); err != nil {
			return Summary{}, err
		}
		left -= n
	}
	return results.summary(c.Clock.Now() - begun), nil
}

// detail returns the end of the hammer in an event: the summary as JSON, or else an error's text.
func detail(summary Summary, err error) string {
	text, marshalErr := json.Marshal(summary)
	switch {
	case err != nil:
		return err.Error()
	case marshalErr != nil:
		return marshalErr.Error()
	}
	return string(text)
}

// total returns how many requests are to be made. As with hey, -z overrides -n.
func (f Flags) total() int {
	if f.Requests > 0 && f.Duration == 0 {
		return f.Requests
	}
	return math.MaxInt
}

// roundOf returns how many of the requests left are made next: as many by each worker, or one by each of fewer workers.
//
//	left 100, workers 30   →   90, then 10
func roundOf(left, workers int) int {
	n := min(left, roundSize)
	return n - n%min(workers, n)
}

// results holds the results of all rounds so far.
type results struct {
	latency *hdrhistogram.Histogram // of replies, in microseconds
	sums    Summary                 // what can be added up
}

func newResults() *results {
	return &results{
		latency: hdrhistogram.New(1, longestReply.Microseconds(), 3),
		sums:    Summary{StatusCodeDist: map[int]int64{}, ErrorDist: map[string]int64{}},
	}
}

// add merges a round of l.
func (r *results) add(l *load, output []byte) error {
	var round struct {
		Lats           []float64
		StatusCodeDist map[int]int64
		ErrorDist      map[string]int64
		SizeTotal      int64
		NumRes         int64
	}
	if err := json.Unmarshal(output, &round); err != nil {
		return fmt.Errorf("hey's summary: %w", err)
	}
	for _, seconds := range round.Lats {
		micros := min(max(int64(seconds*1e6), 1), longestReply.Microseconds())
		_ = r.latency.RecordValue(micros) // within its range
	}
	for code, n := range round.StatusCodeDist {
		r.sums.StatusCodeDist[code] += n
	}
	unsent := l.unsent.Load()
	unanswered := l.unanswered(round.ErrorDist)
	r.sums.NumRes += round.NumRes - unanswered - unsent
	r.sums.Unanswered += unanswered
	r.sums.SizeTotal += round.SizeTotal
	addErrors(r.sums.ErrorDist, round.ErrorDist)
	return nil
}

// summary returns the summary of a load of that length.
func (r *results) summary(took time.Duration) Summary {
	s := r.sums
	s.Total = took.Seconds()
	s.Rps = float64(s.NumRes) / max(s.Total, 1e-9)
	if r.latency.TotalCount() == 0 {
		return s
	}
	s.Average, s.Fastest, s.Slowest = r.latency.Mean()/1e6, float64(r.latency.Min())/1e6, float64(r.latency.Max())/1e6
	for _, percent := range []float64{10, 25, 50, 75, 90, 95, 99} {
		s.LatencyDistribution = append(s.LatencyDistribution,
			Latency{percent, float64(r.latency.ValueAtQuantile(percent)) / 1e6})
	}
	return s
}

// addErrors merges errors by their text without local ports, except those of requests that were cut off.
func addErrors(into, dist map[string]int64) {
	for _, text := range slices.Sorted(maps.Keys(dist)) {
		if strings.Contains(text, cancelled) {
			continue
		}
		plain := loadgen.PlainError(text)
		if _, known := into[plain]; !known && len(into) >= mostErrors {
			plain = otherErrors
		}
		into[plain] += dist[text]
	}
}
