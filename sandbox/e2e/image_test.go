//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"lapse/sandbox/drill"
)

// Where the test's registry listens: the control plane's address, which every node reaches.
const (
	registryHost = "10.200.0.1"
	registryAddr = registryHost + ":5000"
)

// An image is pushed to a registry with TLS and a login. Without the login the nodes cannot pull it, and the run says
// what to type; with it, three nodes pull it by its digest, and no run names it.
func TestAPushedImageIsPulledByEveryNode(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	ca, pulled := serveRegistry(t, c)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("SSL_CERT_FILE", ca)
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	login := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, registryAddr, auth)
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	lapse, err := filepath.Abs(c.Lapse)
	if err != nil {
		t.Fatal(err)
	}
	push := c.On(t.Context(), "cp", lapse, "image", "push", registryAddr+"/tools/lapse",
		"--binary=linux/"+runtime.GOARCH+"="+anotherBuild(t, lapse))
	push.Env, push.Stderr = c.Env(), t.Output()
	name, err := push.Output()
	if err != nil || !strings.HasPrefix(string(name), registryAddr+"/tools/lapse@sha256:") {
		t.Fatalf("pushed as %q: %v", name, err)
	}

	refused := func(flags []string, want ...string) {
		args := append([]string{"run", "svc/web", "-n", w.Namespace, "--out", runDir(t), "--duration=1s"}, flags...)
		code, said := lapseSays(t, c, args...)
		for _, text := range want {
			if code != 2 || !strings.Contains(said, text) {
				t.Errorf("%q: exit code %d, want 2 and %q in:\n%s", flags, code, text, said)
			}
		}
	}
	refused(nil, "which remembered it for context ",
		"`kubectl create secret docker-registry lapse-pull -n "+w.Namespace+" --docker-server="+registryAddr)
	if _, err := c.Kubectl(t.Context(), "create", "secret", "docker-registry", "lapse-pull", "-n", w.Namespace,
		"--docker-server="+registryAddr, "--docker-username=me", "--docker-password=secret"); err != nil {
		t.Fatal(err)
	}
	refused([]string{"--image-pull-secret=lapse-pull", "--image=" + registryAddr + "/tools/nothing:v1"},
		"`lapse image push REGISTRY/NAME`")

	run := measure(t, c, w, "--from=all", "--image-pull-secret=lapse-pull", "--rate=100", "--duration=5s")
	for _, node := range threeNodes(t, c) {
		if from := target(t, run, "web new from "+node); from.OK == 0 {
			t.Errorf("%s has no answers", from.Name)
		}
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(string(name)), "@")
	if by := pulled("/v2/tools/lapse/manifests/" + digest); len(by) < 3 {
		t.Errorf("the image was pulled from %v, want three nodes", by)
	}
}

// anotherBuild returns a copy of a program that makes another image of it. A kubelet that has pulled an image with a
// login asks for one from every Pod that uses an image of the same ID, by whatever name: from those of other tests, too.
// https://kep.k8s.io/2535
func anotherBuild(t *testing.T, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lapse")
	if err := os.WriteFile(path, append(data, "another build"...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// lapseSays runs Lapse, and returns its exit code and all that it prints.
func lapseSays(t *testing.T, c *drill.Cluster, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Lapse, args...)
	cmd.Env = c.Env()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// serveRegistry serves a registry in the control plane's network until the test ends. It returns the file of its
// certificate, where every node's containerd finds and trusts it, and which nodes have asked for a path.
func serveRegistry(t *testing.T, c *drill.Cluster) (ca string, askers func(path string) []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "testregistry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./internal/image/testregistry")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	trusted := filepath.Join(c.Dir, "config", "certs.d")
	t.Cleanup(func() { os.RemoveAll(trusted) })
	ca = filepath.Join(trusted, registryAddr, "ca.crt")
	if err := os.MkdirAll(filepath.Dir(ca), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	serving := c.On(ctx, "cp", program, "-listen", registryAddr, "-ca", ca)
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
			if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] != registryHost {
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
	return ca, func(path string) (nodes []string) {
		mu.Lock()
		defer mu.Unlock()
		for node := range asked[path] {
			nodes = append(nodes, node)
		}
		return nodes
	}
}
