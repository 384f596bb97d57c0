package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/internal/run/saved"
	"lapse/internal/selftest"
	"lapse/internal/trials"
)

// keptAnywhere are the promises that must be kept on any machine, however busy. The first is undecided where the
// server itself stood still, and both where the prober was stopped only when it had measured all.
var keptAnywhere = []string{
	"a stalled prober makes the run inconclusive, and shows no downtime",
	"and counts all of that time as unobserved",
}

// The whole of it, over real sockets. On a machine that is too busy to measure it has to say so; but no promise may be
// broken while the run was observed, and a prober that was stopped has to say so on any machine.
func TestSelftestKeepsItsPromises(t *testing.T) {
	layer.Real(t)
	t.Parallel() // it demands nothing of how long something takes
	for _, p := range trials.Protocols {
		if p.Secure && !slices.Contains([]string{"h2", "wss", "tls"}, p.Name) {
			continue // certificates are the same, and what is said over TLS is tested without
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			keepsItsPromises(t, p.Name)
		})
	}
}

func keepsItsPromises(t *testing.T, protocol string) {
	dir := filepath.Join(t.TempDir(), "proof")
	var stdout bytes.Buffer
	code := Main(t.Context(), []string{"lapse", "selftest", "--protocol=" + protocol, "--duration=16s", "--seed=3", "--out=" + dir, "-o=json"}, &stdout, t.Output())
	var r selftest.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Errorf("%s: exit code %d: %v", protocol, code, err)
		return
	}
	if code != r.ExitCode || code != verdict.ExitPassed && code != verdict.ExitInconclusive {
		t.Errorf("%s: exit code %d, in the report %d", protocol, code, r.ExitCode)
	}
	if code == verdict.ExitPassed && r.Coverage < selftest.MinCoverage {
		t.Errorf("%s: passed with a coverage of %v", protocol, r.Coverage)
	}
	if len(r.Promises) != 11 || r.Protocol != protocol {
		t.Errorf("%s: %d promises of %s", protocol, len(r.Promises), r.Protocol)
	}
	for _, text := range keptAnywhere {
		i := slices.IndexFunc(r.Promises, func(p selftest.Promise) bool { return p.Text == text })
		if i < 0 || r.Promises[i].Outcome != selftest.Kept && !(r.Promises[i].Outcome == selftest.Undecided && (strings.Contains(r.Promises[i].Found, "stand still") || strings.Contains(r.Promises[i].Found, "stopped late"))) {
			t.Errorf("%s: %q, promise %d: not kept", protocol, text, i)
		}
	}
	live, err := os.ReadFile(filepath.Join(dir, saved.TimelineFile))
	var again bytes.Buffer
	Main(t.Context(), []string{"lapse", "report", dir, "-o=json"}, &again, t.Output())
	if err != nil || !bytes.Equal(live, again.Bytes()) {
		t.Errorf("%s: the recording, judged again, is not %s (%v)", protocol, saved.TimelineFile, err)
	}
	for _, name := range []string{saved.FactsFile, "selftest.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}
