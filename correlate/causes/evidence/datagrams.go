package evidence

import (
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what sets targets apart that send datagrams (UDP).

// Datagrams reports whether the window's target sends datagrams (UDP). Each is led by routes on its own; but those
// from one source port go where the first of them went, for as long as the node's connection tracking keeps that in
// mind.
func (v *Traffic) Datagrams(w *model.Window) bool { return sendsDatagrams(v.Target(w)) }

func sendsDatagrams(t *model.Target) bool {
	scheme, _, _ := strings.Cut(t.URL, "://")
	return scheme == "udp" || scheme == "dns"
}

// KeepsPorts reports whether the window's target sends datagrams from source ports that stay.
func (v *Traffic) KeepsPorts(w *model.Window) bool {
	return v.Target(w).Kind == timeline.Reused && v.Datagrams(w)
}

// Undelivered are the window's failures. Of a datagram without an answer nothing tells that it arrived: it counts as
// a connection that was not made.
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
