package report

import (
	"bytes"
	"strings"
	"testing"
)

// While nothing comes from where the run goes on, that is said, and not a rate that falls.
func TestProgressSaysThatNothingComesFromTheJob(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		p := NewProgress(&out, ProgressOptions{Terminal: terminal})
		p.Update(drain(10*s), 10*s)
		out.Reset()
		p.Silent(12*s + 400*ms)
		p.Update(drain(10*s), 22*s)
		if text := out.String(); !strings.Contains(text, "no news from the Job for 12 s") || strings.Contains(text, "/s of") {
			t.Errorf("terminal %v: %q", terminal, text)
		}
		out.Reset()
		p.Silent(0)
		p.Update(drain(32*s), 32*s)
		if text := out.String(); strings.Contains(text, "no news") || !strings.Contains(text, "/s of") {
			t.Errorf("terminal %v: afterwards %q", terminal, text)
		}
	}
}
