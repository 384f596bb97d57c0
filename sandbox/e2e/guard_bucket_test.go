//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

const (
	s3URL    = "http://10.200.0.3:9000" // on the machine outside of the nodes
	s3Key    = "AKIAEXAMPLE"
	s3Secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	s3Store  = "s3://runs/prod"
)

// An s3Server is a real S3 server, which S3 names, whose objects are files of a directory.
type s3Server struct {
	t       *testing.T
	c       *drill.Cluster
	dir     string
	process *exec.Cmd
}

func startS3(t *testing.T, c *drill.Cluster) *s3Server {
	t.Helper()
	s := &s3Server{t: t, c: c, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.start()
	return s
}

// start returns once the server answers.
func (s *s3Server) start() {
	s.t.Helper()
	program := os.Getenv("S3")
	if program == "" {
		s.t.Fatal("S3 does not name the S3 server to test with: run `make test-e2e-all`")
	}
	s.process = s.c.On(s.t.Context(), "outside", program, "--quiet", "--port", strings.TrimPrefix(s3URL, "http://"),
		"posix", s.dir)
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
	s.process.Stdout, s.process.Stderr = s.t.Output(), s.t.Output()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	const connect = "exec 3<>/dev/tcp/10.200.0.3/9000"
	var out []byte
	until(s.t, "the S3 server answers", func() bool {
		var err error
		out, err = s.c.On(s.t.Context(), "outside", "bash", "-c", connect).CombinedOutput()
		return err == nil
	}, func() string { return string(out) })
}

func (s *s3Server) kill() {
	_ = s.process.Process.Kill() // it may have ended
	_ = s.process.Wait()
}

// sums returns the SHA-256 of each file below a directory, by its path there.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(s3Secret)) {
			t.Errorf("%s has the key of the bucket", path)
		}
		name, _ := filepath.Rel(dir, path)
		sum := sha256.Sum256(text)
		all[name] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

// runs returns the SHA-256 of each file of runs in the bucket.
func (s *s3Server) runs() map[string]string {
	s.t.Helper()
	return sums(s.t, filepath.Join(s.dir, "runs/prod/runs"))
}

// recordings returns what the lines of history in the bucket say is the SHA-256 of each run's recording.
func (s *s3Server) recordings() map[string]string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "runs/prod/history/date=*/*.ndjson"))
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var of struct{ Run, Recording string }
			if err := json.Unmarshal(line, &of); err != nil {
				s.t.Fatalf("%s: %v", file, err)
			}
			if _, twice := all[of.Run]; twice || of.Run+".ndjson" != filepath.Base(file) {
				s.t.Errorf("%s has another line of %s", file, of.Run)
			}
			all[of.Run] = of.Recording
		}
	}
	return all
}

// gets waits until the bucket has the lines of a guard's runs, and holds the runs against the guard's own.
func (s *s3Server) gets(own map[string]string) {
	s.t.Helper()
	var lines map[string]string
	var missing []string
	until(s.t, "the bucket has a line of each run", func() bool {
		lines = s.recordings()
		missing = slices.DeleteFunc(runsOf(own), func(run string) bool { return lines[run] != "" })
		return len(missing) == 0
	}, func() string { return fmt.Sprintf("none of %q", missing) })
	has := s.runs()
	for name, sum := range own {
		if has[name] != sum {
			s.t.Errorf("the SHA-256 of %s is %s in the bucket, and %s at the guard", name, has[name], sum)
		}
		run, file := filepath.Split(name)
		if said := lines[filepath.Clean(run)]; file == "facts.lapse" && said != sum {
			s.t.Errorf("the line of %s says that the SHA-256 of its recording is %s, not %s", run, said, sum)
		}
	}
}

// retrieved returns the SHA-256 of each file of the runs that the guard has that leads.
func (g *guarded) retrieved() map[string]string {
	g.t.Helper()
	dir := filepath.Join(g.t.TempDir(), "runs")
	lapse(g.t, g.c, "retrieve", "guard", "-n", g.namespace, "--out", dir)
	all := sums(g.t, dir)
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.Contains(name, "/") }) // of gone runs
	return all
}

// runsOf returns the runs of files.
func runsOf(files map[string]string) (runs []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		runs = append(runs, filepath.Dir(name))
	}
	return slices.Compact(runs)
}

// Each guard puts its runs into a bucket of a real S3 server outside of the cluster. That is killed in the middle of a
// rollout, which is judged, answered for and told as ever; the status and the metric say that the bucket is away. The
// run of a guard whose Pod is deleted meanwhile is lost with it. The other one has measured the same, and puts its own
// run there, once, when the server is back. `lapse trend` counts each rollout once.
func TestABucketThatIsAwayGetsRunsLater(t *testing.T) {
	t.Parallel()
	g := unguarded(t, 2, "", "--on-sigterm=graceful", "--drain-for=3s")
	s := startS3(t, g.c)
	g.kubectl("-n", g.namespace, "create", "secret", "generic", "lapse-store",
		"--from-literal=AWS_ACCESS_KEY_ID="+s3Key, "--from-literal=AWS_SECRET_ACCESS_KEY="+s3Secret)
	if err := g.c.Apply(t.Context(), lapse(t, g.c, "gen", "guard", "-n", g.namespace, "--store="+s3Store,
		"--store-endpoint="+s3URL, "--store-secret=lapse-store", "--", "--rate=25", "--settle=5s")); err != nil {
		t.Fatal(err)
	}
	g.stands()
	g.kubectl("-n", g.namespace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")

	rollouts := g.passes(g.rollOut, "rollout of web: ")
	before := g.retrieved()
	s.gets(before)

	rollouts += g.passes(func() []string {
		end := g.beginRollOut()
		g.awaits("recording")
		s.kill()
		return end()
	}, "rollout of web: ")
	g.awaits(s3Store + " has taken no run since ")
	leader := g.pods()[0]
	after := g.retrieved()
	errors, metrics := 0., "/api/v1/namespaces/"+g.namespace+"/pods/"+leader+":7117/proxy/metrics"
	if err := g.c.Metrics(t.Context(), metrics, func(series string, value float64) {
		if series == "lapse_store_errors_total" {
			errors = value
		}
	}); err != nil || errors == 0 {
		t.Errorf("lapse_store_errors_total is %v: %v", errors, err)
	}
	lost := slices.DeleteFunc(runsOf(after), func(run string) bool { return slices.Contains(runsOf(before), run) })
	if len(lost) == 0 {
		t.Fatalf("%s has no run of the second rollout: %q", leader, runsOf(after))
	}

	began := time.Now()
	g.kubectl("-n", g.namespace, "delete", "pod", leader)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%s took %v to end", leader, took)
	}
	g.stands()
	others := g.retrieved()
	if other := g.pods()[0]; other == leader || len(runsOf(others)) != rollouts {
		t.Fatalf("%s has %q of %d rollouts", other, runsOf(others), rollouts)
	}
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log, err := g.c.Follow(ctx, t.Output(), "-n", g.namespace, "logs", "-f", g.pods()[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Await("the bucket takes runs again"); err != nil {
		t.Fatal(err)
	}
	s.gets(others)
	if status := lapse(t, g.c, "guard", "status", "-n", g.namespace); strings.Contains(status, s3Store) {
		t.Errorf("the bucket is back, and the status says\n%s", status)
	}
	has, lines := runsOf(s.runs()), s.recordings()
	if !slices.Equal(has, slices.Sorted(maps.Keys(lines))) {
		t.Errorf("the bucket has %q, and lines of %q", has, slices.Sorted(maps.Keys(lines)))
	}
	for _, run := range lost {
		if slices.Contains(has, run) {
			t.Errorf("%s was only at %s, which was deleted, and is in the bucket", run, leader)
		}
	}
	trend := g.c.On(t.Context(), "outside", g.c.Lapse, "trend", s3Store, "-o", "json")
	trend.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+s3Key, "AWS_SECRET_ACCESS_KEY="+s3Secret,
		"AWS_ENDPOINT_URL="+s3URL)
	trend.Stderr = t.Output()
	out, err := trend.Output()
	var of struct{ Runs, Again int }
	if err != nil || json.Unmarshal(out, &of) != nil || of.Runs != rollouts || of.Runs+of.Again != len(lines) {
		t.Errorf("of %d rollouts and %d lines lapse trend says %v\n%s", rollouts, len(lines), err, out)
	}
}
