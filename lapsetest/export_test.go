package lapsetest

import "testing"

// Judged returns a result of which it is an error of the test if it is inconclusive.
func Judged(t testing.TB, r *Result) *Result { return &Result{Timeline: r.Timeline, t: t} }
