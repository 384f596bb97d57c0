package preflight

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/service"
)

var update = flag.Bool("update", false, "rewrite what is said in testdata")

// The cases of testdata/manifests.txtar are judged by all rules. Rules that never judge manifests are left out.
func TestManifests(t *testing.T) {
	const path = "testdata/manifests.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		name, want := archive.Files[i].Name, &archive.Files[i+1]
		m := manifest.Read([]string{"-"}, bytes.NewReader(archive.Files[i].Data), manifest.Strict, Ignored)
		states, err := m.States("", []service.Target{{Kind: "service", Name: "web"}})
		if err := cmp.Or(m.Err(), err); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := Judge(states[0])
		var b strings.Builder
		fmt.Fprintln(&b, r.Endpoints)
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "%s %s: %s\n", f.Rule, f.Severity, f.Prediction)
			for _, e := range f.Evidence {
				fmt.Fprintf(&b, "  why %s\n", e)
			}
		}
		why := ""
		for _, u := range r.Unjudged {
			switch {
			case strings.HasPrefix(u.Why, "manifests "):
			case u.Why == why:
				fmt.Fprintf(&b, "not judged %s: the same\n", u.Rule)
			default:
				fmt.Fprintf(&b, "not judged %s: %s\n", u.Rule, u.Why)
				why = u.Why
			}
		}
		if *update {
			want.Data = []byte(b.String())
		}
		if diff := gocmp.Diff(string(want.Data), b.String()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
