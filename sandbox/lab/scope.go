package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/drill"
)

// A scope is one namespace of the cluster, in which a scenario's objects are.
type scope struct {
	cluster   *drill.Cluster
	namespace string
	overTLS   bool // web's Pods speak TLS on their port of HTTP
}

func (s scope) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.cluster.Dir, "bin", "kubectl"),
		append([]string{"-n", s.namespace}, args...)...)
	cmd.Env = s.cluster.Env()
	return cmd
}

// ask runs a command that an operator would not: Lapse does not see what it prints.
func (s scope) ask(ctx context.Context, args ...string) (string, error) {
	return s.cluster.Kubectl(ctx, append([]string{"-n", s.namespace}, args...)...)
}

func (s scope) field(ctx context.Context, object, path string) (string, error) {
	value, err := s.ask(ctx, "get", object, "-o", "jsonpath="+path)
	if err == nil && value == "" {
		err = fmt.Errorf("%s has no %s", object, path)
	}
	return value, err
}

// get fetches a path from a Pod's server, through the API server.
func (s scope) get(ctx context.Context, pod, path string) (string, error) {
	scheme := ""
	if s.overTLS {
		scheme = "https:"
	}
	return s.ask(ctx, "get", "--raw", "/api/v1/namespaces/"+s.namespace+"/pods/"+scheme+pod+":8080/proxy"+path)
}

func (s scope) apply(ctx context.Context, manifest string) error {
	cmd := s.command(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the manifest: %w: %s", err, out)
	}
	return nil
}

func (s scope) kind(ctx context.Context, app string) (string, error) {
	out, err := s.ask(ctx, "get", "deployments,statefulsets", "-o", "name")
	for _, name := range strings.Fields(out) {
		if kind, n, _ := strings.Cut(name, "/"); n == app {
			return kind, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("no Deployment or StatefulSet %q", app)
	}
	return "", err
}

// readiness is a JSONPath: of each Pod "True" if it is ready, and something else if it is not, or is being deleted.
const readiness = `{range .items[*]}{.metadata.deletionTimestamp}` +
	`{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`

// untilReady waits until a workload has rolled out, and until no Pod of an earlier one is left.
func (s scope) untilReady(ctx context.Context, app string) error {
	kind, err := s.kind(ctx, app)
	if err != nil {
		return err
	}
	if _, err := s.ask(ctx, "rollout", "status", kind+"/"+app, "--timeout=90s"); err != nil {
		return err
	}
	want, err := s.field(ctx, kind+"/"+app, "{.spec.replicas}")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		out, err := s.ask(ctx, "get", "pods", "-l", "app="+app,
			"-o", "jsonpath="+readiness)
		if err != nil {
			return err
		}
		if pods := strings.Fields(out); fmt.Sprint(len(pods)) == want &&
			!slices.ContainsFunc(pods, func(ready string) bool { return ready != "True" }) {
			return nil
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not ready: %w", app, err)
		}
	}
}

// untilEndpoints waits until a Service has this many ready endpoints.
func (s scope) untilEndpoints(ctx context.Context, service string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		out, err := s.ask(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name="+service,
			"-o", `jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}`)
		if err != nil {
			return err
		}
		if len(strings.Fields(out)) == want {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%s has %d ready endpoints, want %d: %w", service, len(strings.Fields(out)), want, err)
		}
	}
}

// untilServed waits until each Pod of an app gives a good answer: Kubernetes may call them ready before, which some
// scenarios are about.
func (s scope) untilServed(ctx context.Context, app string) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	out, err := s.ask(ctx, "get", "pods", "-l", "app="+app, "-o", "name")
	if err != nil {
		return err
	}
	return eachOf(strings.Fields(out), func(name string) error {
		for {
			_, err := s.get(ctx, strings.TrimPrefix(name, "pod/"), "/")
			if err == nil {
				return nil
			}
			if sleep(ctx, 300*time.Millisecond) != nil {
				return fmt.Errorf("%s gives no good answer: %w", name, err)
			}
		}
	})
}

// policies is a JSONPath: the name of each Service with an address, and its internalTrafficPolicy.
const policies = `{range .items[?(@.spec.clusterIP!="None")]}{.metadata.name} {.spec.internalTrafficPolicy}{"\n"}{end}`

// deploy puts into the empty namespace what the manifest says, and waits until all of it is ready, web's Pods answer,
// and every node that can leads connections to the Services.
func (s scope) deploy(ctx context.Context, manifest string) error {
	if err := s.cluster.Uncordon(ctx); err != nil { // an earlier scenario may have drained one
		return err
	}
	if err := s.apply(ctx, manifest); err != nil {
		return err
	}
	out, err := s.ask(ctx, "get", "deployments,statefulsets", "-o", "name")
	if err != nil {
		return err
	}
	err = eachOf(strings.Fields(out), func(name string) error {
		_, err := s.ask(ctx, "rollout", "status", name, "--timeout=90s")
		return err
	})
	if err != nil {
		return err
	}
	if err := s.untilServed(ctx, "web"); err != nil {
		return err
	}
	services, err := s.ask(ctx, "get", "services",
		"-o", "jsonpath="+policies)
	if err != nil {
		return err
	}
	return eachOf(strings.Split(strings.TrimSpace(services), "\n"), func(service string) error {
		if f := strings.Fields(service); len(f) == 2 && f[1] == "Cluster" {
			return s.cluster.Routed(ctx, s.namespace, f[0])
		}
		return nil
	})
}

// kinds lists what scenarios create, but for what is deleted by its labels or last.
const kinds = "deployments,statefulsets,daemonsets,replicasets,jobs,poddisruptionbudgets,services,endpointslices," +
	"resourcequotas,ingresses,horizontalpodautoscalers"

// clear removes what a scenario left in its namespace, without grace, and makes the namespace if it is not there. It
// stays: Kubernetes takes several seconds to delete one.
func (s scope) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	there, err := s.cluster.Kubectl(ctx, "get", "namespace", s.namespace, "--ignore-not-found", "-o", "name")
	if err == nil && there == "" {
		_, err = s.cluster.Kubectl(ctx, "create", "namespace", s.namespace)
		return err
	}
	if err != nil {
		return err
	}
	if _, err := s.ask(ctx, "delete", kinds, "--all", "--wait=false"); err != nil {
		return err
	}
	if _, err := s.ask(ctx, "delete", "configmaps",
		"--field-selector", "metadata.name!=kube-root-ca.crt", "--wait=false"); err != nil {
		return err
	}
	if _, err := s.ask(ctx, "delete", "secrets,roles,rolebindings,serviceaccounts",
		"-l", "app.kubernetes.io/managed-by=lapse", "--wait=false"); err != nil {
		return err
	}
	for { // a controller may make another Pod before it learns that it was deleted
		if _, err := s.ask(ctx, "delete", "pods", "--all", "--grace-period=1", "--timeout=60s"); err != nil {
			return err
		}
		left, err := s.ask(ctx, "get", "pods,replicasets,services,endpointslices", "-o", "name")
		if err != nil {
			return err
		}
		if left == "" {
			return nil
		}
	}
}

// prober names the node that Lapse's Job runs on.
func (s scope) prober(ctx context.Context) (string, error) {
	out, err := s.ask(ctx, "get", "pods", "-l", "app.kubernetes.io/managed-by=lapse",
		"-o", "jsonpath={.items[*].spec.nodeName}")
	if fields := strings.Fields(out); err == nil && len(fields) == 1 {
		return fields[0], nil
	}
	return "", fmt.Errorf("which node does the prober run on? %q, %w", out, err)
}

// Count is how many requests a server says it has answered. See sandbox/workload.
type Count struct {
	Pod    string `json:"pod"`
	Served int    `json:"served"`
}

// counts asks each server of an app. Those that do not answer are left out.
func (s scope) counts(ctx context.Context, app string) (all []Count) {
	out, err := s.ask(ctx, "get", "pods", "-l", "app="+app, "-o", "name")
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	_ = eachOf(strings.Fields(strings.ReplaceAll(out, "pod/", "")), func(name string) error {
		text, err := s.get(ctx, name, "/count")
		var c Count
		if err == nil && json.Unmarshal([]byte(text), &c) == nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Count) int { return strings.Compare(a.Pod, b.Pod) })
	return all
}

// busiest names the Pod that has answered most since Lapse began.
func (s scope) busiest(ctx context.Context, app string) (string, error) {
	all := s.counts(ctx, app)
	if len(all) == 0 {
		return "", fmt.Errorf("no server of %s says what it has answered", app)
	}
	return slices.MaxFunc(all, func(a, b Count) int { return cmp.Compare(a.Served, b.Served) }).Pod, nil
}

// eachOf does the same with each of some names, side by side.
func eachOf(names []string, do func(name string) error) error {
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { failed[i] = do(name) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
