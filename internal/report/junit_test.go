package report

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/joshdk/go-junit"

	"lapse/correlate/model"
)

func TestJUnitReadsAsCommitted(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		golden(t, sample+".junit.xml", render(t, "junit", sample, Options{}))
	}
}

// ingest reads a sample's JUnit as a pipeline's collector would.
func ingest(t *testing.T, tl *model.Timeline) junit.Suite {
	t.Helper()
	var out strings.Builder
	if err := JUnit(&out, tl, Options{}); err != nil {
		t.Fatal(err)
	}
	suites, err := junit.Ingest([]byte(out.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(suites) != 1 {
		t.Fatalf("%d suites, want one for the run", len(suites))
	}
	return suites[0]
}

func TestJUnitTellsAPipelineWhatTheVerdictIs(t *testing.T) {
	const gate, incident, valid, command = "gate: ", "incident 1, set off by: ", "the measurement is valid", "the command succeeded"
	for sample, want := range map[string]map[string]junit.Status{
		"race":  {gate + "failed > 0": "failed", gate + "coverage < 99.9%": "passed", incident + "deletion of web-5c9d7f-x2kzq": "failed", valid: "passed", command: "passed"},
		"clean": {gate + "failed > 0": "passed", valid: "passed"},
		"inconclusive": {
			gate + "window.longest > 1s": "error", gate + "errors.rate > 5%": "skipped", gate + "latency.p99 > 1s": "error", incident + "not known": "skipped", valid: "error",
		},
		"aborted":      {"gates": "skipped", incident + "not known": "skipped", valid: "error", command: "failed"},
		"slow":         {"gates": "skipped", incident + "not known": "skipped", valid: "passed"},
		"two-services": {"gates": "skipped", incident + "not known": "skipped", valid: "passed", command: "failed"},
		"live":         {"gates": "skipped", incident + "not known": "skipped", valid: "error", command: "failed"},
	} {
		suite := ingest(t, samples[sample]())
		got := map[string]junit.Status{}
		for _, c := range suite.Tests {
			got[c.Name] = c.Status
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sample, diff)
		}
	}
}

// A run that is inconclusive for another reason than a gate or its measurement, as a drain that took no endpoint away, is
// no pass in a pipeline either.
func TestJUnitOfADoubtfulRunIsNotGreen(t *testing.T) {
	tl := cleanRun()
	tl.Verdict.Result, tl.Verdict.Reasons = model.Inconclusive, []string{"no endpoint of shop/web left"}
	suite := ingest(t, tl)
	if suite.Totals.Error != 1 || !strings.Contains(suite.Tests[len(suite.Tests)-1].Error.Error(), "no endpoint of shop/web left") {
		t.Errorf("%+v", suite)
	}
}

// XML 1.0 cannot hold most control characters, not even escaped: a collector would refuse the whole file.
func TestJUnitIsXMLWhateverTheNames(t *testing.T) {
	for _, evil := range append(evils, "\x00\x01\x0b\x1f\x7f", "\ufffe\uffff", "\xff\xfe", "]]>", `"><failure/>`, "&undefined;", "\u0085\u2028") {
		suite := ingest(t, everywhere(evil))
		if n := suite.Totals.Tests; n != 5 {
			t.Errorf("%q: %d cases, want 5", evil, n)
		}
	}
}
