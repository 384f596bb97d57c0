// Package doctor checks what this machine and this cluster allow, before anything is measured. What is checked is in
// machine.go and cluster.go: each check returns findings, with what to do about them.
package doctor

import (
	"errors"

	"lapse/internal/hint"
)

// A Level says what a finding means for a run.
type Level string

// The levels, the harmless first.
const (
	OK   Level = "ok"
	Warn Level = "warn" // a run can do without it, or it could not be checked
	Fail Level = "fail" // no run can
)

// A Finding is what a check found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Fix   string `json:"fix,omitzero"` // absent if there is nothing to do
}

// A Report is what all checks found.
type Report struct {
	SchemaVersion int       `json:"schemaVersion"` // 1
	Findings      []Finding `json:"findings"`
}

// Failed returns an error if no run can begin.
func (r Report) Failed() error {
	for _, f := range r.Findings {
		if f.Level == Fail {
			return errors.New("a run in the cluster would not begin")
		}
	}
	return nil
}

// found returns the finding of a check that succeeds if err is nil, and has the level otherwise.
func found(check, good string, otherwise Level, err error) Finding {
	if err == nil {
		return Finding{Check: check, Level: OK, Found: good}
	}
	return Finding{Check: check, Level: otherwise, Found: err.Error(), Fix: hint.Of(err)}
}
