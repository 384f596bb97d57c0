package integration

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/spec"
	"lapse/loadgen/faultserver"
)

// Neither the recording nor any report of a run here has a secret, and both say how the run was made.
func TestARunKeepsItsSpecAndNoSecret(t *testing.T) {
	layer.Real(t)
	server, err := faultserver.Start(faultserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), []string{"lapse", "run", server.URL() + "/?token=s3cret", "--baseline=100ms", "--settle=100ms", "--rate=50", "--out=" + dir,
		"-H", "Authorization: Bearer s3cret", "--hammer", "-c 1 -q 5 -H 'Cookie: s3cret'", "--", "sh", "-c", "echo --token s3cret"}, &stdout, &stderr)
	if code == 1 || code == exit.Usage { // what was measured does not matter
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	saved, err := saved.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	var spec spec.Spec
	if err := json.Unmarshal(saved.Meta.Spec, &spec); err != nil || spec.Rate != 50 || !slices.Equal(spec.Headers, []string{"Authorization: ***"}) {
		t.Errorf("recorded %s: %v", saved.Meta.Spec, err)
	}
	recorded, err := json.Marshal([]any{saved.Meta, saved.Sources, saved.Targets, saved.Events})
	if err != nil || bytes.Contains(recorded, []byte("s3cret")) {
		t.Errorf("the recording has a secret: %s (%v)", recorded, err)
	}
	for _, format := range []string{"table", "json", "markdown", "junit", "html"} {
		var report bytes.Buffer
		if code := cli.Main(t.Context(), []string{"lapse", "report", dir, "-v", "-o", format}, &report, &stderr); report.Len() == 0 || strings.Contains(report.String(), "s3cret") {
			t.Errorf("-o %s: exit code %d, or it has a secret", format, code)
		}
		if text := strings.ReplaceAll(report.String(), "`", ""); format != "junit" && !strings.Contains(text, "Authorization: ***") {
			t.Errorf("-o %s does not say how the run was made:\n%s", format, &report)
		}
	}
	if strings.Contains(stdout.String(), "s3cret") {
		t.Errorf("the result has a secret:\n%s", &stdout)
	}
}
