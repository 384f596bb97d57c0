package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/drill"
)

// A play is a scenario under way.
type play struct {
	cluster   *drill.Cluster
	namespace string // its own
	state     sandboxState
	out       io.Writer // what an operator's command would print; Lapse records it
	log       io.Writer // what the runner does
	began     time.Time // the first step

	further map[string]string // manifests that steps apply
	renewed string            // a Secret with a fresh certificate, for `renew certificate`
	overTLS bool              // web's Pods speak TLS on their port of HTTP

	vars map[string]string
	uids map[string]string // of Pods that variables name: the API server may be down when they are needed

	mu    sync.Mutex
	undos []undo // guarded by mu
}

// An undo puts right what a step has disturbed.
type undo struct {
	what string
	do   func(ctx context.Context) error
}

// undoing has something put right at the end, unless [play.undone] says that it has been.
func (p *play) undoing(what string, do func(ctx context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undos = append(p.undos, undo{what, do})
}

// undone has what was disturbed put right now, and tells whether there was such a thing.
func (p *play) undone(ctx context.Context, what string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.undos, func(u undo) bool { return u.what == what })
	if i < 0 {
		return false, nil
	}
	err := p.undos[i].do(ctx)
	p.undos = slices.Delete(p.undos, i, i+1)
	return true, err
}

// undoAll puts everything right, the last disturbance first. It is not to be interrupted.
func (p *play) undoAll(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range slices.Backward(p.undos) {
		if e := u.do(ctx); e != nil {
			err = errors.Join(err, fmt.Errorf("undo %q: %w", u.what, e))
		}
	}
	p.undos = nil
	return err
}

// A Done is a step that was taken, on the machine's clock.
type Done struct {
	Line         int
	Text         string
	Began, Ended time.Time
}

// steps takes them one after the other.
func (p *play) steps(ctx context.Context, steps []Step) (done []Done, err error) {
	p.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	defer background.Wait()
	done = make([]Done, len(steps))
	failed := make([]error, len(steps))
	take := func(i int) {
		s := steps[i]
		done[i] = Done{Line: s.Line, Text: s.Text, Began: time.Now().UTC()}
		fmt.Fprintf(p.log, "  %6.2f s  %s\n", time.Since(p.began).Seconds(), s.Text)
		err := s.do(ctx, p)
		done[i].Ended = time.Now().UTC()
		if err != nil && !s.Try {
			failed[i] = fmt.Errorf("line %d, %s: %w", s.Line, s.Text, err)
		}
	}
	for i, s := range steps {
		if s.Background {
			background.Go(func() { take(i) })
			continue
		}
		if take(i); failed[i] != nil {
			cancel()
			break
		}
	}
	background.Wait()
	return done, errors.Join(failed...)
}

// expand puts values in the place of variables.
func (p *play) expand(w []string) words { return expand(w, p.vars) }

func expand(w []string, vars map[string]string) words {
	expanded := make(words, len(w))
	for i := range w {
		expanded[i] = variable.ReplaceAllStringFunc(w[i], func(name string) string { return vars[name[1:]] })
	}
	return expanded
}

// kubectl runs one command in the play's namespace; what it prints goes where an operator's command would print it.
func (p *play) kubectl(ctx context.Context, args ...string) error {
	cmd := p.command(ctx, args...)
	var talk bytes.Buffer
	cmd.Stdout = p.out
	cmd.Stderr = io.MultiWriter(p.out, &talk)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(talk.String()))
	}
	return nil
}

// applyFurther applies a further manifest of the scenario, as an operator does.
func (p *play) applyFurther(ctx context.Context, name string) error {
	cmd := p.command(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(p.further[name], "$"+namespaceVar, p.namespace))
	var talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(p.out, &talk), io.MultiWriter(p.out, &talk)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl apply of %s: %w: %s", name, err, strings.TrimSpace(talk.String()))
	}
	return nil
}

func (p *play) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.cluster.Dir, "bin", "kubectl"), append([]string{"-n", p.namespace}, args...)...)
	cmd.Env = p.cluster.Env()
	return cmd
}

// ask runs a command that an operator would not: Lapse does not see what it prints.
func (p *play) ask(ctx context.Context, args ...string) (string, error) {
	return p.cluster.Kubectl(ctx, append([]string{"-n", p.namespace}, args...)...)
}

func (p *play) field(ctx context.Context, object, path string) (string, error) {
	value, err := p.ask(ctx, "get", object, "-o", "jsonpath="+path)
	if err == nil && value == "" {
		err = fmt.Errorf("%s has no %s", object, path)
	}
	return value, err
}

// pod names a Pod of an app: the first by name, or the youngest.
func (p *play) pod(ctx context.Context, app, node string, youngest bool) (string, error) {
	args := []string{"get", "pods", "-l", "app=" + app, "-o", "name", "--sort-by=.metadata.name"}
	if youngest {
		args[len(args)-1] = "--sort-by=.metadata.creationTimestamp"
	}
	if node != "" {
		args = append(args, "--field-selector=spec.nodeName="+node)
	}
	out, err := p.ask(ctx, args...)
	names := strings.Fields(strings.ReplaceAll(out, "pod/", ""))
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", fmt.Errorf("app %s has no Pod %s", app, node)
	case youngest:
		names = names[len(names)-1:]
	}
	p.uids[names[0]], err = p.field(ctx, "pod/"+names[0], "{.metadata.uid}")
	return names[0], err
}

// get fetches a path from a Pod's server, through the API server.
func (p *play) get(ctx context.Context, pod, path string) (string, error) {
	scheme := ""
	if p.overTLS {
		scheme = "https:"
	}
	return p.ask(ctx, "get", "--raw", "/api/v1/namespaces/"+p.namespace+"/pods/"+scheme+pod+":8080/proxy"+path)
}

// untilReady waits until a workload has rolled out, and until no Pod of an earlier one is left.
func (p *play) untilReady(ctx context.Context, app string) error {
	kind, err := p.kind(ctx, app)
	if err != nil {
		return err
	}
	if _, err := p.ask(ctx, "rollout", "status", kind+"/"+app, "--timeout=90s"); err != nil {
		return err
	}
	want, err := p.field(ctx, kind+"/"+app, "{.spec.replicas}")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		out, err := p.ask(ctx, "get", "pods", "-l", "app="+app, "-o", `jsonpath={range .items[*]}{.metadata.deletionTimestamp}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err != nil {
			return err
		}
		if pods := strings.Fields(out); fmt.Sprint(len(pods)) == want && !slices.ContainsFunc(pods, func(ready string) bool { return ready != "True" }) {
			return nil
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not ready: %w", app, err)
		}
	}
}

func (p *play) kind(ctx context.Context, app string) (string, error) {
	out, err := p.ask(ctx, "get", "deployments,statefulsets", "-o", "name")
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

// untilEndpoints waits until a Service of that name has so many endpoints that are ready.
func (p *play) untilEndpoints(ctx context.Context, service string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		out, err := p.ask(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name="+service,
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

// deploy puts into the empty namespace what the manifest says, and waits until all of it is ready, web's Pods answer,
// and every node that can leads connections to the Services.
func (p *play) deploy(ctx context.Context, manifest string) error {
	if err := p.cluster.Uncordon(ctx); err != nil { // an earlier scenario may have drained one
		return err
	}
	if err := p.apply(ctx, manifest); err != nil {
		return err
	}
	out, err := p.ask(ctx, "get", "deployments,statefulsets", "-o", "name")
	if err != nil {
		return err
	}
	err = eachOf(strings.Fields(out), func(name string) error {
		_, err := p.ask(ctx, "rollout", "status", name, "--timeout=90s")
		return err
	})
	if err != nil {
		return err
	}
	if err := p.untilServed(ctx, "web"); err != nil {
		return err
	}
	services, err := p.ask(ctx, "get", "services", "-o", `jsonpath={range .items[?(@.spec.clusterIP!="None")]}{.metadata.name} {.spec.internalTrafficPolicy}{"\n"}{end}`)
	if err != nil {
		return err
	}
	return eachOf(strings.Split(strings.TrimSpace(services), "\n"), func(service string) error {
		if f := strings.Fields(service); len(f) == 2 && f[1] == "Cluster" {
			return p.cluster.Routed(ctx, p.namespace, f[0])
		}
		return nil
	})
}

// untilServed waits until each Pod of an app gives a good answer: Kubernetes may call them ready before, which some
// scenarios are about.
func (p *play) untilServed(ctx context.Context, app string) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	out, err := p.ask(ctx, "get", "pods", "-l", "app="+app, "-o", "name")
	if err != nil {
		return err
	}
	return eachOf(strings.Fields(out), func(name string) error {
		for {
			_, err := p.get(ctx, strings.TrimPrefix(name, "pod/"), "/")
			if err == nil {
				return nil
			}
			if sleep(ctx, 300*time.Millisecond) != nil {
				return fmt.Errorf("%s gives no good answer: %w", name, err)
			}
		}
	})
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

func (p *play) apply(ctx context.Context, manifest string) error {
	cmd := p.command(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the manifest: %w: %s", err, out)
	}
	return nil
}

// clear removes what a scenario left in its namespace, without grace, and makes the namespace if it is not there. It
// stays: Kubernetes takes several seconds to delete one.
func (p *play) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	there, err := p.cluster.Kubectl(ctx, "get", "namespace", p.namespace, "--ignore-not-found", "-o", "name")
	if err == nil && there == "" {
		_, err = p.cluster.Kubectl(ctx, "create", "namespace", p.namespace)
		return err
	}
	if err != nil {
		return err
	}
	if _, err := p.ask(ctx, "delete", "deployments,statefulsets,daemonsets,replicasets,jobs,poddisruptionbudgets,services,endpointslices,resourcequotas,ingresses,horizontalpodautoscalers", "--all", "--wait=false"); err != nil {
		return err
	}
	if _, err := p.ask(ctx, "delete", "configmaps", "--field-selector", "metadata.name!=kube-root-ca.crt", "--wait=false"); err != nil {
		return err
	}
	if _, err := p.ask(ctx, "delete", "secrets,roles,rolebindings,serviceaccounts", "-l", "app.kubernetes.io/managed-by=lapse", "--wait=false"); err != nil {
		return err
	}
	for { // a controller may make another Pod before it learns that it was deleted
		if _, err := p.ask(ctx, "delete", "pods", "--all", "--grace-period=1", "--timeout=60s"); err != nil {
			return err
		}
		left, err := p.ask(ctx, "get", "pods,replicasets,services,endpointslices", "-o", "name")
		if err != nil {
			return err
		}
		if left == "" {
			return nil
		}
	}
}

// generated is the end of a Pod's name that Kubernetes has made up, by which Lapse may call it: "x2kzq".
var generated = regexp.MustCompile(`-([a-z0-9]{5})$`)
