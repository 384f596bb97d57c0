package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const namespace = "lapse" // of the guard

// guarded returns the directory that the guard's runs are fetched into.
func (d drainer) guarded() string { return filepath.Join(d.base, "guard") }

// guard installs a guard, and disturbs the workload that [drainer.after] left: a drain, a rollout of a version without
// the fix, and drains until one loses a request. It returns what the gate said of them.
func (d drainer) guard(ctx context.Context) (said string, err error) {
	say("3. A guard, which nobody tells what happens: a drain, the rollout of a version without the fix, a drain.")
	g := guard{drainer: d, w: drill.Workload{Namespace: "shop", Name: "web", Replicas: 2, Neighbours: neighbours,
		Args: []string{"--on-sigterm", "exit"}}}
	if err := g.install(ctx); err != nil {
		return "", err
	}
	drained, err := g.conclusive(ctx, g.drain)
	if err != nil {
		return "", err
	}
	rolled, err := g.conclusive(ctx, g.rollOut)
	if err != nil {
		return "", err
	}
	last := ""
	for try := 0; try < drains && !strings.HasPrefix(last, fail); try++ {
		if last, err = g.conclusive(ctx, g.drain); err != nil {
			return "", err
		}
	}
	if !strings.HasPrefix(drained, pass) || !strings.HasPrefix(last, fail) {
		return "", fmt.Errorf("the gate said %q of the drain with the fix, and %q of the one without", drained, last)
	}
	said = fmt.Sprintf("%s for the drain, %s for the rollout, %s for the drain after it.",
		word(drained), word(rolled), word(last))
	return said, g.show(ctx)
}

// What the gate says begins with these.
const (
	pass         = "PASS "
	fail         = "FAIL "
	inconclusive = "INCONCLUSIVE "
)

func word(said string) string { return said[:strings.IndexByte(said, ' ')] }

// A guard is one on the cluster.
type guard struct {
	drainer
	w    drill.Workload
	runs int
	said string // by the gate, last
}

func (g *guard) install(ctx context.Context) error {
	c := g.cluster
	if err := c.Remove(ctx, namespace); err != nil { // of a demo whose cluster was kept
		return err
	}
	if err := c.Uncordon(ctx); err != nil {
		return err
	}
	if err := c.Ready(ctx, g.w); err != nil {
		return err
	}
	if err := g.kubectl(ctx, "-n", g.w.Namespace, "annotate", "service", g.w.Name, "lapse/guard=on"); err != nil {
		return err
	}
	if err := g.kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	objects, err := g.lapse(ctx, "gen", "guard", "-A", "--", "--rate=100", "--settle=5s")
	if err != nil {
		return err
	}
	fmt.Println("$ lapse gen guard -A -- --rate=100 --settle=5s | kubectl apply -f -")
	return c.Apply(ctx, objects)
}

// stands waits until both Pods of the guard measure.
func (g *guard) stands(ctx context.Context) error {
	_, err := g.cluster.Kubectl(ctx, "-n", namespace, "rollout", "status", "deployment/lapse-guard", "--timeout=2m")
	return err
}

// conclusive disturbs the workload until the gate knows how that went: at most [voids] times, for the machine may let
// the guard stand still.
func (g *guard) conclusive(
	ctx context.Context, disturb func(context.Context) (string, error),
) (said string, err error) {
	for range voids {
		if err := g.stands(ctx); err != nil {
			return "", err
		}
		if said, err = disturb(ctx); err != nil || !strings.HasPrefix(said, inconclusive) {
			return said, err
		}
		say("This proves nothing. Again.")
	}
	return "", fmt.Errorf("the gate still says %s", said)
}

// drain drains a node and lets it take Pods again, and returns what the gate says.
func (g *guard) drain(ctx context.Context) (string, error) {
	if err := g.cluster.Ready(ctx, g.w); err != nil {
		return "", err
	}
	node, err := g.cluster.NodeOf(ctx, g.w)
	if err != nil {
		return "", err
	}
	since := time.Now().UTC().Format(time.RFC3339Nano)
	if err := g.kubectl(ctx, "drain", node, "--ignore-daemonsets"); err != nil {
		return "", err
	}
	if err := g.kubectl(ctx, "uncordon", node); err != nil {
		return "", err
	}
	return g.gate(ctx, "--node="+node, "--since="+since)
}

// rollOut rolls out the version without the fix, and returns what the gate says.
func (g *guard) rollOut(ctx context.Context) (string, error) {
	fmt.Println("$ kubectl apply -f web.yaml   # --on-sigterm exit")
	w := g.w
	if g.runs > 1 { // again: a template of its own, which has the same effect
		w.Args = append(w.Args[:len(w.Args):len(w.Args)], "--drain-for", fmt.Sprintf("%ds", g.runs))
	}
	if err := g.cluster.Apply(ctx, w.Manifest()); err != nil {
		return "", err
	}
	if err := g.cluster.Ready(ctx, g.w); err != nil {
		return "", err
	}
	hash, err := g.cluster.Kubectl(ctx, "-n", g.w.Namespace, "get", "pods", "-l", "app="+g.w.Name,
		"-o", "jsonpath={.items[0].metadata.labels.pod-template-hash}")
	if err != nil {
		return "", err
	}
	return g.gate(ctx, "--hash="+strings.TrimSpace(hash))
}

func (g *guard) gate(ctx context.Context, about ...string) (string, error) {
	args := append([]string{"gate", "svc/" + g.w.Name, "-n", g.w.Namespace, "--wait=2m"}, about...)
	fmt.Println("$ lapse " + strings.Join(args, " "))
	said, err := g.lapse(ctx, args...)
	fmt.Println(said)
	g.runs++
	g.said = said
	return said, err
}

// show prints what the guard left: Events of the Service, its status, and its runs, which it fetches.
func (g *guard) show(ctx context.Context) error {
	if err := g.isSaid(ctx); err != nil {
		return err
	}
	described, err := g.cluster.Kubectl(ctx, "-n", g.w.Namespace, "describe", "service", g.w.Name)
	if err != nil {
		return err
	}
	_, happened, _ := strings.Cut(described, "\nEvents:")
	fmt.Printf("$ kubectl -n %s describe service %s\n[…]\nEvents:%s\n", g.w.Namespace, g.w.Name, happened)
	if n := strings.Count(happened, "RequestDropped") + strings.Count(happened, "RequestsDropped"); n < g.runs-voids {
		return fmt.Errorf("of %d disruptions the Service has %d Events", g.runs, n)
	}
	for _, args := range [][]string{{"guard", "status"}, {"retrieve", "guard", "--out", g.guarded()}} {
		fmt.Println("$ lapse " + strings.Join(args, " "))
		out, err := g.lapse(ctx, args...)
		fmt.Println(out)
		if err != nil {
			return err
		}
		if args[0] == "retrieve" && !slices.ContainsFunc(strings.Fields(out), g.named) {
			return fmt.Errorf("the run that the gate named is not among those of the guard: %s", g.said)
		}
	}
	return nil
}

// isSaid waits for the Event about the run that the gate named last.
func (g *guard) isSaid(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	events, err := g.cluster.Follow(ctx, io.Discard, "-n", g.w.Namespace, "get", "events", "--watch",
		"-o", `jsonpath={.involvedObject.kind} {.message}{"\n"}`)
	if err != nil {
		return err
	}
	_, run, _ := strings.Cut(g.said, "(")
	return events.Await(strings.TrimSuffix(run, ")"))
}

// named reports whether the gate named a run last.
func (g *guard) named(dir string) bool {
	return strings.Contains(g.said, "(run "+filepath.Base(dir)+")")
}

// kubectl prints a kubectl command, and runs it.
func (g *guard) kubectl(ctx context.Context, args ...string) error {
	fmt.Println("$ kubectl " + strings.Join(args, " "))
	_, err := g.cluster.Kubectl(ctx, args...)
	return err
}

// lapse runs Lapse, and returns what it prints. A verdict is no error.
func (g *guard) lapse(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, g.cluster.Lapse, args...)
	cmd.Env, cmd.Stderr = g.cluster.Env(), g.cluster.Log
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		switch exit.ExitCode() {
		case exitGateFailed, exitUndecided:
			err = nil
		default:
			err = fmt.Errorf("lapse %s: %w", strings.Join(args, " "), err)
		}
	}
	return strings.TrimSpace(string(out)), err
}
