package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A play is a scenario under way.
type play struct {
	scope
	machine
	repairs
	out   io.Writer // what an operator's command would print; Lapse records it
	began time.Time // the first step

	further map[string]string // manifests that steps apply
	renewed string            // a Secret with a fresh certificate, for `renew certificate`

	vars map[string]string
	uids map[string]string // of Pods that variables name: the API server may be down when they are needed
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
	return p.kubectlOn(ctx, "", args...)
}

func (p *play) kubectlOn(ctx context.Context, stdin string, args ...string) error {
	cmd := p.command(ctx, args...)
	var talk bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), p.out, io.MultiWriter(p.out, &talk)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(talk.String()))
	}
	return nil
}

// applyFurther applies a further manifest of the scenario, as an operator does.
func (p *play) applyFurther(ctx context.Context, name string) error {
	manifest := strings.ReplaceAll(p.further[name], "$"+namespaceVar, p.namespace)
	return p.kubectlOn(ctx, manifest, "apply", "-f", "-")
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

// generated is the end of a Pod's name that Kubernetes has made up, by which Lapse may call it: "x2kzq".
var generated = regexp.MustCompile(`-([a-z0-9]{5})$`)
