package evidence

import (
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about targets that send datagrams (UDP).

// Datagrams reports whether the window's target sends datagrams (UDP). Each is routed on its own; but datagrams from
// one source port go where the first of them went while the node's connection tracking has an entry.
func (v *Traffic) Datagrams(w *model.Window) bool { return sendsDatagrams(v.Target(w)) }

func sendsDatagrams(t *model.Target) bool {
	scheme, _, _ := strings.Cut(t.URL, "://")
	return scheme == "udp" || scheme == "dns"
}

// KeepsPorts reports whether the window's target sends datagrams from fixed source ports.
func (v *Traffic) KeepsPorts(w *model.Window) bool {
	return v.Target(w).Kind == timeline.Reused && v.Datagrams(w)
}

// Undelivered returns the window's failures. A datagram without an answer may not have arrived: it counts as a
// connection that could not be opened.
func (v *Traffic) Undelivered(w *model.Window) []model.Failure {
	own := v.Failures(w)
	if !v.Datagrams(w) {
		return own
	}
	own = slices.Clone(own)
	for i := range own {
		if own[i].Class == timeline.TimeoutResponse {
			own[i].Class = timeline.TimeoutConnect
		}
	}
	return own
}
