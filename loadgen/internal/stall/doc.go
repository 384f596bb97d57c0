// Package stall detects stops of the prober (see [timeline.ProberStall]) and decides what they may have done to a
// request. The decisions are functions of a request's instants, in [Course].
package stall
