package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/gate"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// DemandOf returns what a Service asks for that is measured as o says.
func DemandOf(o *spec.Options) budget.Demand {
	return budget.Demand{Targets: len(o.Kinds), Idle: o.IdleRate, Full: o.Rate, Direct: o.DirectRate}
}

// join asks for the Service's share of --max-rate.
func (s *service) join(o *spec.Options) (*budget.Share, error) {
	share, err := s.g.budget.Join(s.Key(), DemandOf(o), s.g.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = share
	return share, err
}

// reserve asks for the share of a Service that is about to be measured. [service.measure] asks again, and says why
// there is none.
func (s *service) reserve() {
	if o, err := s.by.Options(s.Marked); err == nil {
		_, _ = s.join(o)
	}
}

// longerBaseline gives each target the time for two requests.
func longerBaseline(o *spec.Options, rate float64) {
	if rate > 0 && !o.WasGiven("baseline") {
		o.Baseline = max(o.Baseline, time.Duration(2/rate*float64(time.Second)))
	}
}

// rated logs that the rates in force have changed, and lets the gate say what a lower idle rate means.
func (g *guard) rated(s budget.State) {
	idle := ""
	if s.Rates.Idle < s.Asked.Idle {
		idle = atRate(s.Rates.Idle, s.Asked.Idle)
	}
	g.gate.Change(func(b *gate.Book) { b.Limit = idle })
	was := g.rates
	switch g.rates = lowered(s); {
	case g.rates != "":
		g.Log.Warn("rates are lowered", "by", g.rates)
	case was != "":
		g.Log.Info("rates are no longer lowered")
	}
}

// lowered says by how much --max-rate lowers rates; "" if it does not.
func lowered(s budget.State) string {
	var parts []string
	add := func(who string, rate, asked float64) {
		if rate < asked {
			parts = append(parts, fmt.Sprintf("%s get %s/s instead of %s/s", who, quantity.Number(rate),
				quantity.Number(asked)))
		}
	}
	add("Services under disruption", s.Rates.Full, s.Asked.Full)
	add("those that wait", s.Rates.Idle, s.Asked.Idle)
	if len(parts) == 0 {
		return ""
	}
	return "--max-rate " + quantity.Number(s.Most) + ": " + strings.Join(parts, ", ") + " to each target"
}

// atRate says what a lowered rate means.
func atRate(rate, asked float64) string {
	interval := time.Duration(float64(time.Second) / rate)
	return fmt.Sprintf("at %s/s instead of %s/s: an outage shorter than %s may be missed", quantity.Number(rate),
		quantity.Number(asked), quantity.Span(interval))
}

// rateOf says at which rate a run was measured since its first sign, if that was lowered; else "".
func rateOf(tl *model.Timeline) string {
	var asked struct {
		Rate float64 `json:"rate"`
	}
	if json.Unmarshal(tl.Run.Spec, &asked) != nil { // older runs have none
		return ""
	}
	if lowest := lowestRate(tl); lowest > 0 && lowest < asked.Rate {
		return atRate(lowest, asked.Rate)
	}
	return ""
}

// lowestRate returns the lowest rate since the first sign of a judged target, from all places together; 0 if there is
// none. They share it, so that what this process asks says it.
func lowestRate(tl *model.Timeline) (lowest float64) {
	others := map[string]bool{}
	for _, s := range tl.Sources {
		others[s.Name] = s.Role == timeline.Prober
	}
	rates := map[string]float64{} // of own targets, as they were before the next change, or are in the end
	for _, t := range tl.Judged() {
		if !others[t.Source] {
			rates[t.Name] = t.Rate
		}
	}
	for _, e := range slices.Backward(tl.Events) {
		if e.Kind == timeline.RateChanged && rates[e.Object.Name] > 0 {
			if rate, err := strconv.ParseFloat(e.From, 64); err == nil {
				rates[e.Object.Name] = rate
			}
		}
	}
	begun, probers := false, map[string]int{} // that measure, by node
	take := func(rate float64) {
		places := 1
		for _, n := range probers {
			places += n
		}
		if all := rate * float64(places); rate > 0 && begun && (lowest == 0 || all < lowest) {
			lowest = all
		}
	}
	for _, e := range tl.Events {
		switch {
		case e.Enters(timeline.PhaseMeasuring):
			begun = true
			for _, rate := range rates {
				take(rate)
			}
		case e.Kind == timeline.ProberChanged && e.To == "measuring":
			probers[e.Object.Name]++
		case e.Kind == timeline.ProberChanged && e.To == "lost":
			probers[e.Object.Name] = max(0, probers[e.Object.Name]-1)
		case e.Kind == timeline.RateChanged && rates[e.Object.Name] > 0:
			rates[e.Object.Name], _ = strconv.ParseFloat(e.To, 64)
			take(rates[e.Object.Name])
		}
	}
	return lowest
}
