package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lapse/sandbox/drill"
)

// Scenarios that touch nothing but what is in their own namespace are played side by side, each in a namespace of its
// own; then those that act on what all share, one after the other. While one is played, the namespace of the one
// before is cleared.
//
//	lab     | deploy, play ───────────| clear ─|   | deploy, play …
//	lab-2   | deploy, play ──| clear ─|
//	lab-3                    | deploy, play ───────────| clear
//	lab-4                              | deploy, play ──────|

// alone reports whether nothing else may be played at the same time: the scenario acts on nodes, on the control plane,
// or on what leads to the nodes. An ingress leads to its own Services only: there is one at a time, but scenarios
// without one may be played at the same time.
func (s Scenario) alone() bool {
	return s.Outside.Balancer != nil || s.Outside.Families != "" ||
		slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Shared })
}

// A playing is one run of a scenario that is to come.
type playing struct {
	Scenario
	number int // of its runs in this mode
}

// order says which runs may be played side by side, and which come after them, alone. What needs the sandbox to be
// restarted comes last.
func order(scenarios []Scenario, n int) (together, alone []playing) {
	var last []playing
	for _, s := range scenarios {
		for i := range n {
			p := playing{s, i + 1}
			switch {
			case s.Outside.Families != "":
				last = append(last, p)
			case s.alone():
				alone = append(alone, p)
			default:
				together = append(together, p)
			}
		}
	}
	return together, append(alone, last...)
}

// sideBySide takes n at a time, in their order, until all are taken or the context ends.
func sideBySide(ctx context.Context, n int, all []playing, take func(playing)) {
	next := make(chan playing)
	var players sync.WaitGroup
	for range n {
		players.Go(func() {
			for p := range next {
				take(p)
			}
		})
	}
	defer players.Wait()
	defer close(next)
	for _, p := range all {
		select {
		case next <- p:
		case <-ctx.Done():
			return
		}
	}
}

// firstNamespace is where scenarios are deployed; the further namespaces are lab-2 and so on.
const firstNamespace = "lab"

// spaces are the namespaces of a cluster that scenarios are deployed in.
type spaces struct {
	cluster  *drill.Cluster
	ready    chan space
	clearing sync.WaitGroup
}

// A space is a namespace, empty unless it could not be cleared.
type space struct {
	name string
	err  error
}

// newSpaces clears two namespaces for each scenario that is played at the same time: one to play in, one to clear.
func newSpaces(ctx context.Context, c *drill.Cluster, together int) *spaces {
	s := &spaces{cluster: c, ready: make(chan space, 2*together)}
	for i := range cap(s.ready) {
		name := firstNamespace
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		s.giveBack(ctx, name)
	}
	return s
}

// take waits for an empty namespace.
func (s *spaces) take(ctx context.Context) (string, error) {
	select {
	case next := <-s.ready:
		if next.err != nil {
			s.giveBack(ctx, next.name)
			return "", fmt.Errorf("clear the namespace %s: %w", next.name, next.err)
		}
		return next.name, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// giveBack has a namespace cleared, while others go on.
func (s *spaces) giveBack(ctx context.Context, name string) {
	s.clearing.Go(func() {
		own := scope{cluster: s.cluster, namespace: name}
		s.ready <- space{name, own.clear(ctx)}
	})
}

// settle waits until nothing is cleared any more.
func (s *spaces) settle() { s.clearing.Wait() }

// A notebook collects what the runner says of one scenario, and prints all of it at once if others are played at the
// same time.
type notebook struct {
	out  io.Writer
	mu   *sync.Mutex // of out
	mine sync.Mutex  // steps in the background write as well
	text strings.Builder
}

func (n *notebook) Write(text []byte) (int, error) {
	n.mine.Lock()
	defer n.mine.Unlock()
	return n.text.Write(text)
}

func (n *notebook) print() {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprint(n.out, n.text.String())
}
