package report

import (
	"bytes"
	"strings"
	"testing"

	"lapse/correlate/model"
)

// In detail, a report says how the run was made.
func TestVerboseReportSaysHowTheRunWasMade(t *testing.T) {
	const made = `{"targets":["svc/web"],"kinds":["new","reused"],"rate":50,"connections":5,"pacing":"economical","method":"HEAD","timeout":800000000,` +
		`"baseline":5000000000,"settle":10000000000,"headers":["Authorization: ***"],"headersFrom":["web-auth"],"hammer":"-c 2"}`
	const want = "svc/web · 50/s each for new, reused · 5 connections · timeout 800 ms · economical pacing · baseline 5 s · HEAD · settle 10 s · " +
		"headers Authorization: *** · headers from Secrets web-auth · hammer -c 2"
	for _, test := range []struct {
		spec    string
		verbose bool
		want    bool
	}{{made, true, true}, {made, false, false}, {"", true, false}} {
		tl := &model.Timeline{}
		tl.Run.Spec = []byte(test.spec)
		var out bytes.Buffer
		if err := Table(&out, tl, Options{Unicode: true, Width: 400, Verbose: test.verbose}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(strings.Fields(out.String()), " "), "ASKED "+want); got != test.want {
			t.Errorf("spec %q, verbose %v:\n%s", test.spec, test.verbose, &out)
		}
	}
}

// Where Services were chosen, a report says how.
func TestVerboseReportSaysHowServicesWereChosen(t *testing.T) {
	for spec, want := range map[string]string{
		`{"targets":null,"onNode":"node1","rate":5,"totalRate":1000,"kinds":["new"]}`:           "ASKED Services on node1 · 5/s each for new · 1000/s in all",
		`{"targets":null,"allNamespaces":true,"selector":"team=blue","rate":5,"kinds":["new"]}`: "ASKED Services of all namespaces team=blue · 5/s each for new",
		`{"targets":null,"selector":"team=blue","rate":5,"kinds":["new"]}`:                      "ASKED Services team=blue · 5/s each for new",
	} {
		tl := &model.Timeline{}
		tl.Run.Spec = []byte(spec)
		var out bytes.Buffer
		if err := Table(&out, tl, Options{Unicode: true, Width: 400, Verbose: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
