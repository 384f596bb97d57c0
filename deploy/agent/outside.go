package agent

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"lapse/timeline"
)

// This file is about a workstation outside the cluster that is a prober itself (`--from outside`). The agent cannot
// reach it, so it joins the run and hands over what it measures.

// A Joining is the request of a prober to join the run.
type Joining struct {
	Name    string        `json:"name"` // of its machine
	Version string        `json:"version"`
	T0      time.Time     `json:"t0"`      // what its wall clock said at its instant 0
	Sync    timeline.Sync `json:"sync"`    // its clock against the run's; the coordinator sets the source
	Targets []Assigned    `json:"targets"` // what it will measure; the coordinator sets numbers and sources
}

// Handed is what such a prober has measured since the last Handed.
type Handed struct {
	Source timeline.SourceID `json:"source"`
	Number int               `json:"number"` // counts from 0: a repeated number is taken once

	Syncs    []timeline.Sync      `json:"syncs,omitempty"`
	Backends []timeline.Backend   `json:"backends,omitempty"`
	Peers    []timeline.Peer      `json:"peers,omitempty"`
	Held     []timeline.HeldBatch `json:"held,omitempty"`
	Batches  []timeline.Batch     `json:"batches,omitempty"`
	Events   []timeline.Event     `json:"events,omitempty"`

	Last bool `json:"last,omitzero"` // nothing more will come
}

// Facts returns the facts in the order in which they must be recorded.
func (h *Handed) Facts() (facts []timeline.Fact) {
	for _, f := range h.Syncs {
		facts = append(facts, f)
	}
	for _, f := range h.Backends {
		facts = append(facts, f)
	}
	for _, f := range h.Peers {
		facts = append(facts, f)
	}
	for _, f := range h.Held {
		facts = append(facts, f)
	}
	for _, f := range h.Batches {
		facts = append(facts, f)
	}
	for _, f := range h.Events {
		facts = append(facts, f)
	}
	return facts
}

// Add adds a fact. It ignores facts that a prober does not record.
func (h *Handed) Add(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Sync:
		h.Syncs = append(h.Syncs, f)
	case timeline.Backend:
		h.Backends = append(h.Backends, f)
	case timeline.Peer:
		h.Peers = append(h.Peers, f)
	case timeline.HeldBatch:
		h.Held = append(h.Held, f)
	case timeline.Batch:
		h.Batches = append(h.Batches, f)
	case timeline.Event:
		h.Events = append(h.Events, f)
	}
}

// own reports whether every fact is the prober's own.
func (h *Handed) own() bool {
	return !slices.ContainsFunc(h.Facts(), func(f timeline.Fact) bool { return timeline.SourceOf(f) != h.Source })
}

// An OutsideService is a run that a prober outside the cluster can join.
type OutsideService interface {
	// Join makes the prober a source of the run. It fails where the run has no place for one.
	Join(Joining) (Assignment, error)
	// Take records what the prober hands over. over reports whether the run has ended: then the prober stops and hands
	// over the rest.
	Take(Handed) (over bool, err error)
}

type handedReply struct {
	Over bool `json:"over"`
}

// outsideAPI adds the calls of a prober outside the cluster.
func outsideAPI(v1 *http.ServeMux, service OutsideService) {
	var mu sync.Mutex
	next := map[timeline.SourceID]int{} // by source: the number of what it hands over next
	v1.HandleFunc("POST /v1/outside", func(w http.ResponseWriter, r *http.Request) {
		var j Joining
		if !body(w, r, &j) {
			return
		}
		a, err := service.Join(j)
		if err != nil {
			fail(w, http.StatusConflict, err)
			return
		}
		reply(w, a)
	})
	v1.HandleFunc("POST /v1/outside/facts", func(w http.ResponseWriter, r *http.Request) {
		var h Handed
		if !body(w, r, &h) {
			return
		}
		if !h.own() {
			fail(w, http.StatusConflict, errors.New("facts of another source than the one that hands them over"))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if h.Number < next[h.Source] { // its answer was lost
			h = Handed{Source: h.Source, Last: h.Last}
		} else {
			next[h.Source] = h.Number + 1
		}
		over, err := service.Take(h)
		if err != nil {
			fail(w, http.StatusConflict, err)
			return
		}
		reply(w, handedReply{over})
	})
}

// Join makes this machine a prober of the run.
func (c *Client) Join(ctx context.Context, j Joining) (a Assignment, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/outside", nil, j, &a)
	return a, err
}

// Hand hands over what this machine measured. over reports whether the run has ended and waits only for the rest.
func (c *Client) Hand(ctx context.Context, h Handed) (over bool, err error) {
	var answer handedReply
	err = c.call(ctx, http.MethodPost, "/v1/outside/facts", nil, h, &answer)
	return answer.Over, err
}
