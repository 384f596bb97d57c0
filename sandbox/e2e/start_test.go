//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/starts"
)

// startPage reads one of docs/start.
func startPage(t *testing.T, name string) starts.Page {
	t.Helper()
	page, err := starts.Read(filepath.Join("../../docs/start", name))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// A desk is a workstation that is no node: a folder with an archive of `make release`, and a home with a kubeconfig and
// nothing else. What stands in a page for names of the reader's is replaced by those of the test.
type desk struct {
	c         *drill.Cluster
	folder    string
	programs  string // a folder on the PATH, for what stands in for other programs
	trusted   string // certificate of the registry; empty: there is none
	nodes     []string
	toReaders *strings.Replacer
}

// newDesk takes the release from the folder that RELEASE names.
func newDesk(t *testing.T, c *drill.Cluster, kubeContext, namespace string, names ...string) *desk {
	t.Helper()
	release := os.Getenv("RELEASE")
	if release == "" {
		t.Fatal("RELEASE does not name the release to begin with: run `make test-e2e-all`")
	}
	names = append(names, "shop", namespace, "linux-amd64", "linux-"+runtime.GOARCH)
	d := &desk{c: c, folder: t.TempDir(), programs: t.TempDir(), nodes: threeNodes(t, c),
		toReaders: strings.NewReplacer(names...)}
	for _, name := range []string{d.toReaders.Replace("lapse-v0.1.0-linux-amd64.tar.gz"), "checksums.txt"} {
		data, err := os.ReadFile(filepath.Join(release, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(d.folder, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(c.Dir, "config", "outside.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "home/.kube/config", string(config))
	d.run(t, "kubectl config rename-context lapse-sandbox "+kubeContext,
		"kubectl config set-context --current --namespace="+namespace)
	return d
}

// rebuild makes another build of the program in the archive, and so another image. A kubelet that has pulled an image
// does not run an image of the same ID by another name, unless it can pull that too: tests that push, and tests that
// load, would be in each other's way. https://kep.k8s.io/2535
func (d *desk) rebuild(t *testing.T, mark string) {
	t.Helper()
	folder := d.toReaders.Replace("lapse-v0.1.0-linux-amd64")
	d.run(t, "mkdir new && tar xf "+folder+".tar.gz -C new && echo '"+mark+"' >>new/"+folder+"/lapse",
		"tar c -C new "+folder+" | gzip -1 >"+folder+".tar.gz && rm -r new",
		"sha256sum "+folder+".tar.gz >checksums.txt")
}

// write writes a file below the folder.
func (d *desk) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(d.folder, name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logIn is docker login.
func (d *desk) logIn(t *testing.T, at *testRegistry, password string) {
	t.Helper()
	d.trusted = at.ca
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	d.write(t, "home/.docker/config.json", fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, at.address, auth))
}

// A step is a line that was typed.
type step struct {
	Line   string // as in the page
	Code   int
	Output string
	Took   time.Duration
}

// run types lines, each of which is to succeed.
func (d *desk) run(t *testing.T, lines ...string) {
	t.Helper()
	for _, s := range d.typed(t, lines) {
		if s.Code != 0 {
			t.Fatalf("%s: exit code %d:\n%s", s.Line, s.Code, s.Output)
		}
	}
}

// follow types all lines of a page that can be, and returns what became of them.
func (d *desk) follow(t *testing.T, page starts.Page) (steps []step) {
	t.Helper()
	for _, block := range page.Blocks {
		switch {
		case block.NotRun != "":
			t.Logf("not run, for it %s:\n%s", block.NotRun, strings.Join(block.Lines, "\n"))
		case block.OnNode:
			steps = append(steps, d.onNodes(t, block.Lines)...)
		default:
			steps = append(steps, d.typed(t, block.Lines)...)
		}
	}
	return steps
}

// typed types lines in a shell outside of the nodes, one after the other whatever becomes of them.
func (d *desk) typed(t *testing.T, lines []string) []step {
	t.Helper()
	const mark = "\x1e" // after a line's output; its exit code and the time follow
	var script strings.Builder
	script.WriteString("cd " + d.folder + "\nended() { printf '\\036%s %s\\036' $? $(date +%s%N); }\ntrap ended EXIT\n")
	for i, line := range lines {
		if i > 0 {
			script.WriteString("ended\n")
		}
		script.WriteString(d.toReaders.Replace(line) + "\n")
	}
	file := filepath.Join(d.programs, "typed.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cmd := d.c.On(t.Context(), "outside", "env", "-i", "HOME="+filepath.Join(d.folder, "home"),
		"PATH="+d.programs+":"+filepath.Join(d.c.Dir, "bin")+":/usr/bin:/bin", "SSL_CERT_FILE="+d.trusted, "sh", file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run() // it exits with what the last line does
	parts := strings.Split(out.String(), mark)
	if len(parts) != 2*len(lines)+1 {
		t.Fatalf("%d lines were typed: %v\n%s", len(lines), err, &out)
	}
	var steps []step
	for i, line := range lines {
		code, at, _ := strings.Cut(parts[2*i+1], " ")
		s := step{Line: line, Output: parts[2*i]}
		nanoseconds, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			s.Code, err = strconv.Atoi(code)
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := time.Unix(0, nanoseconds)
		s.Took, began = ended.Sub(began), ended
		t.Logf("$ %s\n%s(exit code %d, %.1f s)", line, s.Output, s.Code, s.Took.Seconds())
		steps = append(steps, s)
	}
	return steps
}

// onNodes types lines on each node, as root, where the folder's files have been copied.
func (d *desk) onNodes(t *testing.T, lines []string) (steps []step) {
	t.Helper()
	for _, node := range d.nodes {
		pids, err := d.c.PIDs("containerd", node)
		if err != nil {
			t.Fatal(err)
		}
		containerd, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			began := time.Now()
			cmd := d.c.On(t.Context(), node, "nsenter", "--mount", "--target", fmt.Sprint(pids[0]), "sh", "-c",
				"cd "+d.folder+" && PATH="+filepath.Dir(containerd)+":$PATH && "+line)
			out, err := cmd.CombinedOutput()
			t.Logf("%s# %s\n%s", node, line, out)
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			steps = append(steps, step{line, cmd.ProcessState.ExitCode(), string(out), time.Since(began)})
		}
	}
	return steps
}

// judged checks that a run came to a verdict: it passed, failed its gate, or observed too little on a busy machine.
// Every other line must succeed, but for a report, which exits as its run did.
func judged(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		verdict := strings.HasPrefix(s.Line, "./lapse run ") || strings.HasPrefix(s.Line, "./lapse report ")
		if s.Code != 0 && !(verdict && (s.Code == 3 || s.Code == 4)) {
			t.Errorf("%s: exit code %d", s.Line, s.Code)
		}
	}
}

// cloudBlocks returns what can be typed of the page of a registry: four lines, and those for nodes without a login.
func cloudBlocks(t *testing.T) (four, withSecret []string) {
	t.Helper()
	var blocks []starts.Block
	for _, block := range startPage(t, "cloud.md").Blocks {
		if block.NotRun == "" {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) != 2 || len(blocks[0].Lines) != 4 {
		t.Fatalf("blocks %+v, want four lines, and those for nodes without a login", blocks)
	}
	return blocks[0].Lines, blocks[1].Lines
}

// From an archive and a registry with a login to the verdict of a drain: the four lines of the README, typed. The nodes
// have a login of their own, as those of a cloud have.
func TestFourLinesLeadToTheVerdictOfADrain(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1, Args: []string{"--on-sigterm", "exit"}})
	node, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Uncordon(context.Background()); err != nil {
			t.Error(err)
		}
	})
	at := serveRegistry(t, c, "5000")
	at.letNodesIn(t)
	d := newDesk(t, c, "prod", w.Namespace, "REGISTRY", at.address, "node1", node)
	d.logIn(t, at, "secret")
	lines, _ := cloudBlocks(t)
	four := d.typed(t, lines)
	var took time.Duration
	for _, s := range four {
		took += s.Took
	}
	t.Logf("from `tar xf` to the verdict of a drain: %.1f s, %d lines", took.Seconds(), len(four))
	for i, code := range []int{0, 0, 0, 3} {
		if four[i].Code != code {
			t.Errorf("%s: exit code %d, want %d", four[i].Line, four[i].Code, code)
		}
	}
	pushed := at.address + "/lapse@sha256:"
	says(t, four[1], "linux/amd64 (", "linux/arm64 (", "remembered for context prod", pushed)
	says(t, four[2], "OK    rights: lapse run: enough\n", "OK    rights: lapse routes: enough\n", "OK    admission: ",
		"OK    image: "+pushed, " scheduler: ", " clock: ", " page: ")
	says(t, four[3], " FAIL ", noReadyEndpoint, "exit 3 (failed > 0)")

	const tagged = " --image REGISTRY/lapse:v0.1.0"
	for _, asked := range []struct {
		line string
		code int
		says []string
	}{
		{"./lapse doctor -n shop" + tagged, 0, []string{"OK    image: " + at.address + "/lapse:v0.1.0 is in its registry, " +
			"for linux/amd64 and linux/arm64; asked with your login"}},
		{"./lapse doctor -n shop --image REGISTRY/nothing:v1", 2,
			[]string{"FAIL  image: ", "there is no such image", "`lapse image push " + at.address + "/nothing`"}},
		{"DOCKER_CONFIG=/nowhere ./lapse doctor -n shop" + tagged, 0,
			[]string{"WARN  image: ", "the login is missing or wrong", "`kubectl create secret docker-registry "}},
		{"SSL_CERT_FILE=/dev/null ./lapse doctor -n shop" + tagged, 0,
			[]string{"WARN  image: ", "its certificate is not trusted"}},
	} {
		s := d.typed(t, []string{asked.line})[0]
		if s.Code != asked.code {
			t.Errorf("%s: exit code %d, want %d", s.Line, s.Code, asked.code)
		}
		says(t, s, asked.says...)
	}
}

// says checks what a line printed.
func says(t *testing.T, s step, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(s.Output, text) {
			t.Errorf("%s: no %q in\n%s", s.Line, text, s.Output)
		}
	}
}

// loaded is the build that tests load as lapse:v0.1.0.
const loaded = "to be loaded"

// A program in the place of kind does what kind does: ctr imports the archive on each node.
func TestStartOnALaptop(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	namespace := ownNamespace(t, c)
	d := newDesk(t, c, "kind-kind", namespace, "--image=nginx", "--image=lapse-workload:dev",
		"--port=80", "--port=80 --target-port=8080")
	home, err := os.UserHomeDir() // which has the sandbox's components
	if err != nil {
		t.Fatal(err)
	}
	kind := fmt.Sprintf("#!/bin/sh\ntest \"$1 $2 $4 $5\" = \"load image-archive --name kind\" || exit 1\n"+
		"LAPSE_SANDBOX_CACHE=%s HOME=%s exec sandbox --dir %s load \"$3\"\n", os.Getenv("LAPSE_SANDBOX_CACHE"), home, c.Dir)
	if err := os.WriteFile(filepath.Join(d.programs, "kind"), []byte(kind), 0o755); err != nil {
		t.Fatal(err)
	}
	d.rebuild(t, loaded)
	steps := d.follow(t, startPage(t, "kind.md"))
	judged(t, steps)
	says(t, steps[1], "remembered for context kind-kind")
	says(t, steps[len(steps)-1], " measured ")
}

func TestStartWithoutTheInternet(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	d := newDesk(t, c, "inside", w.Namespace)
	d.rebuild(t, loaded)
	steps := d.follow(t, startPage(t, "air-gapped.md"))
	judged(t, steps)
	says(t, steps[0], ".tar.gz: OK")
	says(t, steps[len(steps)-2], " image: lapse:v0.1.0 is on ")
	says(t, steps[len(steps)-1], "6 targets")
}

func TestStartInCI(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	at := serveRegistry(t, c, "5002")
	at.letNodesIn(t)
	d := newDesk(t, c, "ci", w.Namespace, "REGISTRY", at.address)
	d.logIn(t, at, "secret")
	d.write(t, "rollout.sh",
		"#!/bin/sh -e\nkubectl rollout restart deployment/web\nkubectl rollout status deployment/web\n")
	steps := d.follow(t, startPage(t, "ci.md"))
	judged(t, steps)
	run, report := steps[len(steps)-2], steps[len(steps)-1]
	says(t, run, "./rollout.sh", "exit "+fmt.Sprint(report.Code)) // with which the script ends
	cases, err := os.ReadFile(filepath.Join(d.folder, "lapse.xml"))
	if err != nil || !bytes.Contains(cases, []byte("<testsuite")) {
		t.Errorf("no JUnit cases: %v, %.200s", err, cases)
	}
}

// ownNamespace creates a namespace of the test's own.
func ownNamespace(t *testing.T, c *drill.Cluster) string {
	t.Helper()
	name := "e2e-" + strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	t.Cleanup(func() {
		if err := c.Remove(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Kubectl(t.Context(), "create", "namespace", name); err != nil {
		t.Fatal(err)
	}
	return name
}
