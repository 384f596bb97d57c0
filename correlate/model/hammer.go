package model

import "time"

// Hammer is the background load in addition to the probes, made with rakyll/hey. It keeps the Service busy, as a drain
// would find it. It is no evidence: no window, no downtime and no gate rests on it, and what it counts as well may have
// failed, for hey sends a request again without a word when a kept connection dies, and does not notice a reply that is
// cut off.
type Hammer struct {
	Args    string         `json:"args"`             // hey's flags
	Start   *time.Duration `json:"start,omitzero"`   // absent if it never began
	End     *time.Duration `json:"end,omitzero"`     // absent while it goes on, or if its end is not on the record
	Summary *HammerSummary `json:"summary,omitzero"` // absent until it ended, and if it failed
	Error   string         `json:"error,omitzero"`   // why it failed
}

// HammerSummary is what the background load saw, in a closed loop: a worker sends its next request when the last one
// has ended. So it slows down with the Service, and says nothing of when requests failed.
type HammerSummary struct {
	Duration time.Duration `json:"duration"` // how long it ran
	Requests int           `json:"requests"` // that ended, with a reply or an error
	Rate     float64       `json:"rate"`     // requests ÷ duration, per second
	// requests cut off, for they had no reply a second after the load's end; they are neither in requests nor in errors
	Unanswered int `json:"unanswered,omitzero"`
	// of the bodies whose length was announced, whether or not they came whole
	Bytes int64 `json:"bytes,omitzero"`
	// of replies, whatever their status; absent if there were none
	Latency  *HammerLatency `json:"latency,omitzero"`
	Statuses map[string]int `json:"statuses"` // how many replies had each HTTP status code
	// how many requests got no reply, by error text without what differs from connection to connection
	Errors map[string]int `json:"errors"`
}

// HammerLatency is how long replies took from when their requests were sent, not from when they were due. A quantile
// is absent where hey did not say it.
type HammerLatency struct {
	Mean time.Duration `json:"mean"`
	Min  time.Duration `json:"min"`
	P50  time.Duration `json:"p50,omitzero"`
	P90  time.Duration `json:"p90,omitzero"`
	P95  time.Duration `json:"p95,omitzero"`
	P99  time.Duration `json:"p99,omitzero"`
	Max  time.Duration `json:"max"`
}

// Failed returns how many requests of the background load got no reply.
func (s *HammerSummary) Failed() int {
	n := 0
	for _, count := range s.Errors {
		n += count
	}
	return n
}
