//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lapse/sandbox/drill"
)

const (
	registryHost = "10.200.0.1" // where the tests' registries listen: the control plane, which every node reaches
	outsideHost  = "10.200.0.3" // where images are pushed from
)

// An image that cannot be pushed or pulled is answered with what to type: a wrong login, a registry without TLS, an image
// that is not there, nodes without a login. With that of a Secret, as the page says, three nodes pull it by its digest.
func TestAnImageThatIsNotPushedOrPulledIsAnswered(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	at := serveRegistry(t, c, "5001")
	d := newDesk(t, c, "prod", w.Namespace, "REGISTRY", at.address, "PLAIN", at.plain, "USER", "me",
		"PASSWORD", "secret")
	d.rebuild(t, "to be pulled with a login by "+d.folder) // by no earlier test
	d.logIn(t, at, "wrong")
	wrong := d.typed(t, []string{
		"tar xf lapse-v0.1.0-linux-amd64.tar.gz --strip-components=1",
		"./lapse image push REGISTRY/tools/lapse",
		"./lapse image push PLAIN/tools/lapse",
	})
	d.logIn(t, at, "secret")
	_, withSecret := cloudBlocks(t)
	right := d.typed(t, slices.Concat(
		[]string{"./lapse image push REGISTRY/tools/lapse", "./lapse run svc/web -n shop --duration 1s"},
		withSecret,
		[]string{"./lapse run svc/web -n shop --duration 1s --image REGISTRY/nothing:v1 --image-pull-secret lapse-pull"},
	))
	pushed := at.address + "/tools/lapse@sha256:"
	for _, answer := range []struct {
		step
		code int
		says []string
	}{
		{wrong[1], 1, []string{"the login is missing or wrong", "`docker login " + at.address + "`"}},
		{wrong[2], 1, []string{"the registry does not speak TLS", "--insecure pushes over HTTP"}},
		{right[0], 0, []string{"remembered for context prod", pushed}},
		{right[1], 2, []string{"which remembered it for context prod",
			"`kubectl create secret docker-registry lapse-pull -n " + w.Namespace + " --docker-server=" + at.address}},
		{right[len(right)-1], 2, []string{"`lapse image push REGISTRY/NAME`"}},
	} {
		if answer.Code != answer.code {
			t.Errorf("%s: exit code %d, want %d", answer.Line, answer.Code, answer.code)
		}
		says(t, answer.step, answer.says...)
	}
	judged(t, right[2:len(right)-1])
	_, digest, _ := strings.Cut(right[0].Output, pushed)
	digest, _, _ = strings.Cut(digest, "\n")
	if by := at.askers("/v2/tools/lapse/manifests/sha256:" + digest); len(by) < 3 {
		t.Errorf("the image was pulled from %v, want three nodes", by)
	}
}

// A testRegistry is a registry with TLS and a login: me, whose password is secret.
type testRegistry struct {
	address string
	plain   string                     // address of the same without TLS
	ca      string                     // file of its certificate, which every node's containerd finds and trusts
	askers  func(path string) []string // the nodes that have asked for a path
}

// letNodesIn gives all nodes a login of their own, as those of a cloud have for its registry.
func (r *testRegistry) letNodesIn(t *testing.T) {
	t.Helper()
	file := filepath.Join(filepath.Dir(r.ca), "hosts.toml")
	hosts := fmt.Sprintf("[host.%[1]q]\n  ca = %[2]q\n  [host.%[1]q.header]\n    Authorization = \"Basic %[3]s\"\n",
		"https://"+r.address, r.ca, base64.StdEncoding.EncodeToString([]byte("me:secret")))
	if err := os.WriteFile(file, []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serveRegistry serves a registry in the control plane's network until the test ends.
func serveRegistry(t *testing.T, c *drill.Cluster, port string) *testRegistry {
	t.Helper()
	r := &testRegistry{address: registryHost + ":" + port, plain: registryHost + ":1" + port}
	program := filepath.Join(t.TempDir(), "testregistry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./internal/image/testregistry")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	trusted := filepath.Join(c.Dir, "config", "certs.d", r.address)
	t.Cleanup(func() { os.RemoveAll(trusted) })
	r.ca = filepath.Join(trusted, "ca.crt")
	if err := os.MkdirAll(trusted, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	serving := c.On(ctx, "cp", program, "-listen", r.address, "-plain", r.plain, "-ca", r.ca)
	serving.Stderr = t.Output()
	out, err := serving.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Errorf("the registry says %q", lines.Text())
	}
	var mu sync.Mutex
	asked := map[string]map[string]bool{} // by path, then by address
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] != outsideHost {
				mu.Lock()
				if asked[words[2]] == nil {
					asked[words[2]] = map[string]bool{}
				}
				asked[words[2]][words[0]] = true
				mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
		serving.Wait() // it was killed
	})
	r.askers = func(path string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Collect(maps.Keys(asked[path]))
	}
	return r
}
