// Package budget shares the requests per second of a guard among its Services. It knows no clock.
//
//	all that wait: 5/s to each target, or 2.5/s, 1.25/s … until half of the budget is left
//	all under disruption: 100/s to each target, or 50/s, 25/s … until it fits
//
// The rate is the same for all, and so is the detection limit: an outage shorter than the time between two requests may
// be missed. It is halved and not divided, so that it seldom changes within a run, and runs can be compared. A Service
// that gets few requests is still watched for signs: only what does not fit at [Least] is left out, the last one first.
package budget

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/run/direct"
)

const (
	// Least is the lowest rate, in requests per second: up to 10 s before a disruption are without a request.
	Least = 0.1
	// Default is the budget of a guard, in requests per second. A node remembers a closed connection for two minutes,
	// and kube-proxy lets it remember 131072 or more. Of 4000 some 2000 are sent, as few Pods are in transition at
	// once; two thirds are new connections: 120000 in the minute and a half of a disruption. That is 0.4 core at
	// 0.2 ms for each request, and 0.8 on a machine that takes 0.4 ms: docs/measured/cost.md.
	Default = 4000
	// calm is how long a higher rate must fit until those under disruption get it.
	calm = time.Minute
)

// A Demand is what a Service asks for, in requests per second.
type Demand struct {
	Targets int     // without the Pods' own addresses
	Idle    float64 // to each target, while the Service waits for a disruption
	Full    float64 // to each target under disruption
	Direct  float64 // to all Pods' own addresses together; those in transition get more
}

// idleAt returns how many requests a Service gets that waits, with at most rate for each target.
func (d Demand) idleAt(rate float64) float64 {
	rate = min(d.Idle, rate)
	return float64(d.Targets)*rate + min(d.Direct, rate)
}

// fullAt returns how many requests a Service can get under disruption, with at most rate for each target.
func (d Demand) fullAt(rate float64) float64 {
	return float64(d.Targets)*min(d.Full, rate) + (1+direct.MaxHurried)*min(d.Direct, rate)
}

// Most returns how many requests a Service can get.
func (d Demand) Most() float64 { return d.fullAt(d.Full) }

// Rates are requests per second to each target of a Service.
type Rates struct {
	Idle float64 `json:"idle"`
	Full float64 `json:"full"`
}

// A State is what is in force.
type State struct {
	Most    float64 `json:"most"`    // for all Services together
	Asked   Rates   `json:"asked"`   // the highest that a Service asks for
	Rates   Rates   `json:"rates"`   // no Service gets more
	Lowered int     `json:"lowered"` // how many Services get less now than they ask for
}

// A Budget is what the Services of a guard share. Any goroutine may use it.
type Budget struct {
	// Changed is called when the rates in force change. It must not use the budget.
	Changed func(State)

	mu     sync.Mutex
	most   float64
	shares []*Share // in the order in which they came
	rates  Rates
	roomy  time.Time // since when a higher rate under disruption would fit; zero: it would not
}

// A Share is the part of a Service.
type Share struct {
	Demand
	of   *Budget
	name string
	full bool // it is under disruption
}

// New returns a budget of so many requests per second.
func New(most float64) *Budget { return &Budget{most: most} }

// Set changes the budget. Shares that do not fit any more stay until their Services ask for them again.
func (b *Budget) Set(most float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
	b.share(now)
}

// Join gives a Service a share, or changes the one it has. An error says that those before it leave it no rate.
func (b *Budget) Join(name string, d Demand, now time.Time) (*Share, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.share(now)
	at := slices.IndexFunc(b.shares, func(s *Share) bool { return s.name == name })
	if at < 0 {
		at, b.shares = len(b.shares), append(b.shares, &Share{of: b, name: name})
	}
	s := b.shares[at]
	s.Demand = d
	if all := reserve(b.shares[:at+1], Least); !within(all, b.most) {
		b.shares = slices.Delete(b.shares, at, at+1)
		const text = "--max-rate %s is not enough: it takes %s with the %s before it, at %s/s to each target"
		return nil, fmt.Errorf(text, quantity.Number(b.most), quantity.Number(all), quantity.Count(at, "Service"),
			quantity.Number(Least))
	}
	return s, nil
}

// Leave takes back the share of a Service.
func (b *Budget) Leave(name string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = slices.DeleteFunc(b.shares, func(s *Share) bool { return s.name == name })
	b.share(now)
}

// State returns what is in force.
func (b *Budget) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state()
}

func (b *Budget) state() State {
	s := State{Most: b.most, Asked: asked(b.shares), Rates: b.rates}
	for _, share := range b.shares {
		if share.rate() < share.asked() {
			s.Lowered++
		}
	}
	return s
}

// Rate returns how many requests per second each of so many targets of the Service gets at now, while it waits or under
// disruption.
func (s *Share) Rate(targets int, full bool, now time.Time) float64 {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Targets != targets || s.full != full || b.calm(now) {
		s.Targets, s.full = targets, full
		b.share(now)
	}
	return s.rate()
}

// Lowered returns how many requests per second each target of the Service gets, and how many it asks for.
func (s *Share) Lowered() (rate, asked float64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.rate(), s.asked()
}

func (s *Share) asked() float64 {
	if s.full {
		return s.Full
	}
	return s.Idle
}

func (s *Share) rate() float64 {
	if s.full {
		return min(s.Full, s.of.rates.Full)
	}
	return min(s.Idle, s.of.rates.Idle)
}

// calm reports whether a higher rate has fitted for long enough.
func (b *Budget) calm(now time.Time) bool { return !b.roomy.IsZero() && now.Sub(b.roomy) >= calm }

// share sets the rates. Those under disruption get less at once, and more when that has fitted for a while.
func (b *Budget) share(now time.Time) {
	was, fit := b.rates, divide(b.most, b.shares)
	disrupted := slices.ContainsFunc(b.shares, func(s *Share) bool { return s.full })
	b.rates.Idle = fit.Idle
	switch {
	case fit.Full <= was.Full, !disrupted, b.calm(now):
		b.rates.Full, b.roomy = fit.Full, time.Time{}
	case b.roomy.IsZero():
		b.roomy = now
	}
	b.rates.Full = max(b.rates.Full, b.rates.Idle)
	if b.rates != was && b.Changed != nil {
		b.Changed(b.state())
	}
}

// asked returns the highest rates that a Service asks for.
func asked(shares []*Share) (rates Rates) {
	for _, s := range shares {
		rates.Idle, rates.Full = max(rates.Idle, s.Idle), max(rates.Full, s.Full)
	}
	return rates
}

// divide returns the highest rates that fit.
func divide(most float64, shares []*Share) Rates {
	rates := asked(shares)
	rates.Idle = highest(rates.Idle, Least, func(rate float64) bool { return within(reserve(shares, rate), most) })
	rates.Full = highest(rates.Full, rates.Idle, func(rate float64) bool {
		sum := 0.0
		for _, s := range shares {
			if s.full {
				sum += s.fullAt(rate)
			} else {
				sum += s.idleAt(rates.Idle)
			}
		}
		return within(sum, most)
	})
	return rates
}

// reserve returns what Services need that wait with a rate: as much again for those under disruption, or what a
// disruption of all takes with that rate.
func reserve(shares []*Share, rate float64) (sum float64) {
	for _, s := range shares {
		sum += max(2*s.idleAt(rate), s.fullAt(min(s.Idle, rate)))
	}
	return sum
}

// within reports whether a sum is at most so much, though it may be rounded.
func within(sum, most float64) bool { return sum <= most*(1+1e-9) }

// highest returns the first of rate, its half, a quarter and so on that fits; least, or rate, if none above it does.
func highest(rate, least float64, fits func(rate float64) bool) float64 {
	for r := rate; r > least; r /= 2 {
		if fits(r) {
			return r
		}
	}
	return min(rate, least)
}
