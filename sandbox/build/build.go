// Package build makes what a sandbox runs, and keeps it in a cache: the components, built from source, packages of
// Debian, unpacked, and the images that every node has. The name of each folder there stands for all that goes into it.
package build

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"lapse/sandbox/command"
	"lapse/sandbox/problem"
)

// KubernetesVersion is as in go.mod. The linker stamps it into the binaries.
const KubernetesVersion = "v1.36.3"

const (
	plainFlags = "-s -w"
	kubeFlags  = plainFlags +
		" -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
)

// A component is one binary, built from a Go module that go.mod pins.
type component struct {
	name    string
	module  string // folder of the module, below the sandbox's source
	pkg     string
	ldflags string
}

var components = []component{
	{"etcd", ".", "go.etcd.io/etcd/server/v3", kubeFlags},
	{"kube-apiserver", ".", "k8s.io/kubernetes/cmd/kube-apiserver", kubeFlags},
	{"kube-controller-manager", ".", "k8s.io/kubernetes/cmd/kube-controller-manager", kubeFlags},
	{"kube-scheduler", ".", "k8s.io/kubernetes/cmd/kube-scheduler", kubeFlags},
	{"kubelet", ".", "k8s.io/kubernetes/cmd/kubelet", kubeFlags},
	{"kube-proxy", ".", "k8s.io/kubernetes/cmd/kube-proxy", kubeFlags},
	{"kubectl", ".", "k8s.io/kubernetes/cmd/kubectl", kubeFlags},
	{"coredns", "coredns", ".", plainFlags}, // a module of its own: its dependencies are newer than Kubernetes'
}

// Components returns the directory with every component, building what is missing. The directory's name
// stands for everything that goes into a binary, so another version never meets an old one.
func Components(ctx context.Context, log io.Writer, source, cache string) (string, error) {
	key, err := componentsKey(source)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "components-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", problem.Errorf("the cache cannot be written (%v): set LAPSE_SANDBOX_CACHE", err)
	}
	for i, c := range components {
		target := filepath.Join(dir, c.name)
		if _, err := os.Stat(target); err == nil {
			continue
		}
		begin := time.Now()
		fmt.Fprintf(log, "  building %s (%d/%d) ... ", c.name, i+1, len(components))
		if err := goBuild(ctx, filepath.Join(source, c.module), target, c.pkg, c.ldflags); err != nil {
			fmt.Fprintln(log, "failed")
			return "", err
		}
		fmt.Fprintf(log, "%.0f s\n", time.Since(begin).Seconds())
	}
	return dir, nil
}

func componentsKey(source string) (string, error) {
	parts := []string{runtime.Version(), runtime.GOARCH, fmt.Sprint(components)}
	for _, name := range []string{"go.mod", "go.sum", "coredns/go.mod", "coredns/go.sum", "coredns/main.go"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	return digest(parts...), nil
}

// digest returns a short name for contents.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12]
}

// goBuild writes a static binary: whole, under its name, or not at all.
func goBuild(ctx context.Context, dir, target, pkg, ldflags string) error {
	part := fmt.Sprintf("%s.%d.part", target, os.Getpid())
	defer os.Remove(part)
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags="+ldflags, "-o", part, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go then removes its temporary files
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, command.LastLines(string(out), 15))
	}
	return os.Rename(part, target)
}

// Source returns the folder of this module: the components' versions and the workload live there.
func Source() (string, error) {
	var candidates []string
	if dir := os.Getenv("LAPSE_SANDBOX_SOURCE"); dir != "" {
		candidates = append(candidates, dir)
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		candidates = append(candidates, filepath.Dir(filepath.Dir(file)))
	}
	for dir, _ := os.Getwd(); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		candidates = append(candidates, dir, filepath.Join(dir, "sandbox"))
	}
	for _, dir := range candidates {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module lapse/sandbox\n") {
			return dir, nil
		}
	}
	return "", problem.Errorf("the sandbox's source was not found: run inside the repository, " +
		"or set LAPSE_SANDBOX_SOURCE to its sandbox folder")
}
