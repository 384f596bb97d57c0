// Package helm tests the chart, deploy/chart, with Helm itself.
package helm

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what the chart renders to")

const (
	chart = "../../deploy/chart"
	cases = "../../deploy/testdata/chart/*.values.yaml"
)

// program builds Helm, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(path)), err
})

// helm runs Helm, and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("go tool -n helm: %v", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HELM_CACHE_HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if err != nil {
		return stderr.String(), err
	}
	return stdout.String(), nil
}

// rendered returns the objects of a release of the chart in the namespace shop.
func rendered(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "web", chart, "-n", "shop"}, flags...)...)
}

// internal/cli holds that these are the objects that `lapse gen` prints.
func TestChartRendersAsCommitted(t *testing.T) {
	files, err := filepath.Glob(cases)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, values := range files {
		got, err := rendered(t, "-f", values)
		if err != nil {
			t.Errorf("%s: %v\n%s", values, err, got)
			continue
		}
		file := strings.TrimSuffix(values, ".values.yaml") + ".yaml"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is stale: run `go -C tools/helm test -update`, and look at the difference", file)
		}
	}
}

func TestChartHasNoFaultsThatHelmKnowsOf(t *testing.T) {
	files, err := filepath.Glob(cases)
	if err != nil {
		t.Fatal(err)
	}
	flags := [][]string{nil}
	for _, values := range files {
		flags = append(flags, []string{"-f", values})
	}
	for _, values := range flags {
		out, err := helm(t, append([]string{"lint", "--strict", chart, "-n", "shop"}, values...)...)
		if err != nil {
			t.Errorf("helm lint %v: %v\n%s", values, err, out)
		}
	}
}

func TestValuesThatMeanNothingAreRefused(t *testing.T) {
	for _, c := range []struct{ set, says string }{
		{"run.target=svc/web", "target"},
		{"runs.duration=5m", "runs"},
		{"image.name=lapse", "name"},
		{"run.from.everywhere=true", "everywhere"},
		{"run.from.all=false", "all"},
		{"run.from.all=true,run.from.nodes={node1}", "from"},
		{"run.targets=svc/web", "targets"},
		{"run.targets={}", "targets"},
		{"run.duration=10", "duration"},
		{"run.holdSeconds=10m", "holdSeconds"},
		{"run.name=Nightly", "name"},
		{"imagePullSecrets={login}", "imagePullSecrets"},
		{"run.networkPolicy=yes", "networkPolicy"},
	} {
		out, err := rendered(t, "--set", c.set)
		if err == nil {
			t.Errorf("--set %s is accepted", c.set)
		} else if !strings.Contains(out, "schema") || !strings.Contains(out, c.says) {
			t.Errorf("--set %s: %s", c.set, out)
		}
	}
}

func TestEachRevisionIsARunOfItsOwn(t *testing.T) {
	out, err := rendered(t, "-s", "templates/run/job.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "\n  name: \"web-1\"\n") {
		t.Errorf("the first revision of the release web is not the run web-1:\n%s", out)
	}
}
