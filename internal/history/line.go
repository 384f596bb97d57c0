// Package history keeps judged runs as lines of JSON, one for each run and Service: what a trend over months needs, in
// 2 kB at most. A file of such lines is appended to; a guard drops the oldest if it grows too long.
//
//	{"history":1,"run":"lapse-20261121-101500-ab3d","t0":"2026-11-21T10:15:00Z","duration":21000000000,
//	 "baseline":5000000000,"service":"shop/web","triggers":[{"kind":"drain","object":"Node/node1"}],
//	 "release":{"templates":["54cf597767"]},"kubernetes":"v1.36.3","proxyMode":"nftables",
//	 "load":[{"kind":"new","rate":100}],"sources":["node3"],"sent":2100,"failed":20,
//	 "downtime":{"total":{"min":114115145,"max":344262544}},"coverage":1,
//	 "causes":[{"rule":"route-outlives-pod","confidence":"high","failed":20}],
//	 "verdict":"fail","lapse":"v1.4.0","recording":"9f86d081884c7d65…"}
package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"lapse/correlate/model"
)

// Version is the format of the lines that this package writes, and the only one that it reads. It rises with each
// change: a reader refuses what it does not know.
const Version = 1

// MaxBytes is the most that a line takes, its line break included.
const MaxBytes = 2048

// A Line is what is kept of a run for one of its Services, or for all of its URLs. Lengths are
// nanoseconds. What was not measured, or is not on record, is absent.
type Line struct {
	History  int           `json:"history"` // [Version]
	Run      string        `json:"run"`     // the run's ID
	T0       time.Time     `json:"t0"`      // when it began
	Duration time.Duration `json:"duration"`
	Baseline time.Duration `json:"baseline,omitzero"` // from T0 to the first sign of a disruption, or to the work

	Service  string    `json:"service,omitzero"` // NAMESPACE/NAME
	UID      string    `json:"uid,omitzero"`     // the Service's: no other one has it, of any cluster
	URLs     []string  `json:"urls,omitzero"`    // instead of a Service
	Triggers []Trigger `json:"triggers,omitzero"`
	Release  Release   `json:"release,omitzero"`

	Kubernetes string   `json:"kubernetes,omitzero"` // the API server's version
	ProxyMode  string   `json:"proxyMode,omitzero"`  // kube-proxy's
	Load       []Load   `json:"load"`                // what was sent
	Sources    []string `json:"sources,omitzero"`    // the nodes, or else the processes, that sent it

	Sent     int             `json:"sent"` // requests whose outcome tells something of the Service
	Failed   int             `json:"failed"`
	Downtime *model.Downtime `json:"downtime,omitzero"` // absent if Sent is 0
	Coverage float64         `json:"coverage"`          // observed ÷ measured time, 0 to 1
	Causes   []Cause         `json:"causes,omitzero"`   // the one of most failures first

	Verdict model.Result `json:"verdict"`          // of the whole run
	Aborted bool         `json:"aborted,omitzero"` // the run ended before it was due to, or its recording breaks off

	Lapse     string `json:"lapse"`              // the version that judged the run
	Recording string `json:"recording,omitzero"` // the SHA-256 of its recording, in hexadecimal
	Truncated int    `json:"truncated,omitzero"` // how many entries of the lists above were left out to fit [MaxBytes]
}

// A Trigger is a change that ended Pods of the Service, or that changed the Service, whether or not a request failed. A
// line of URLs has those of each Service that was watched.
type Trigger struct {
	Kind   model.TriggerKind `json:"kind"`
	Object string            `json:"object,omitzero"` // KIND/NAME of what was drained, rolled out, scaled or changed
}

// A Release is what served during the run, oldest first: after a rollout the last one is the new release.
type Release struct {
	// the hashes of the Pods' templates: pod-template-hash, controller-revision-hash, or the ID that Lapse gave it
	Templates []string `json:"templates,omitzero"`
}

// IsZero reports whether nothing is known of what served.
func (r Release) IsZero() bool { return len(r.Templates) == 0 }

// A Load is requests of one kind at one rate.
type Load struct {
	Kind    string  `json:"kind"`             // new, reused
	Rate    float64 `json:"rate"`             // per second, of each target
	Targets int     `json:"targets,omitzero"` // how many targets send so; absent if one does
}

// A Cause is a rule with the requests that failed in windows that it explains best.
type Cause struct {
	Rule       string           `json:"rule"`
	Confidence model.Confidence `json:"confidence"`
	Failed     int              `json:"failed"`
}

// Write appends lines to w, each with one call.
func Write(w io.Writer, lines ...Line) error {
	for _, l := range lines {
		text, err := l.encode()
		if err != nil {
			return fmt.Errorf("history of %s: %w", l.Run, err)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the line with its break. It leaves out entries of the longest list until it fits.
func (l Line) encode() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	for {
		text, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		if len(text) < MaxBytes {
			return append(text, '\n'), nil
		}
		if !l.shorten() {
			return nil, fmt.Errorf("it takes %d bytes, and may take %d", len(text)+1, MaxBytes)
		}
	}
}

// shorten leaves out the last entry of the longest list that has another, and reports whether there was one. Lists are
// replaced, not changed.
func (l *Line) shorten() bool {
	cut := func(*Line) {}
	longest := 1
	consider := func(n int, how func(*Line)) {
		if n > longest {
			longest, cut = n, how
		}
	}
	consider(len(l.Sources), func(l *Line) { l.Sources = butLast(l.Sources) })
	consider(len(l.Triggers), func(l *Line) { l.Triggers = butLast(l.Triggers) })
	consider(len(l.Causes), func(l *Line) { l.Causes = butLast(l.Causes) })
	consider(len(l.Load), func(l *Line) { l.Load = butLast(l.Load) })
	consider(len(l.URLs), func(l *Line) { l.URLs = butLast(l.URLs) })
	consider(len(l.Release.Templates), func(l *Line) { l.Release.Templates = l.Release.Templates[1:] })
	cut(l)
	l.Truncated++
	return longest > 1
}

func butLast[T any](list []T) []T { return slices.Clip(list[:len(list)-1]) }

var errNothing = errors.New("it names neither a run nor when it began")
