package main

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Step is one thing that the runner does while Lapse measures.
type Step struct {
	Line       int
	Text       string // as written
	Try        bool   // it may fail, as a drain that a PodDisruptionBudget refuses
	Background bool   // the next step does not wait for its end
	// Shared: it acts on what all namespaces share: nodes, their components and networks, the control plane, DNS.
	Shared bool
	do     action
}

// A verb is the first word of a step.
type verb struct {
	name  string
	usage string
	parse func(w words) (action, bool) // false: not what the usage says

	shared func(w words) bool // whether it acts on what all namespaces share; nil: never
}

// always reports true: the verb acts on what all namespaces share, whatever its words.
func always(words) bool { return true }

// proberVar is the variable that names the prober's node.
const proberVar = "prober"

// namespaceVar is the variable that names the scenario's namespace, in its manifest too.
const namespaceVar = "namespace"

var variable = regexp.MustCompile(`\$[a-z0-9]*`)

// verbs are all that a step can say. A name in capital letters is the reader's: NODE is node1 and so on, APP is a
// Deployment's or StatefulSet's, POD a Pod's (a variable, mostly).
var verbs = []verb{
	{"let", "let NAME = pod of APP [on NODE], or youngest pod of APP, or busiest pod of APP, " +
		"or node of POD, or address of POD", parseLet, nil},
	{"after", "after 3s: wait so long", parseAfter, nil},
	{"at", "at 5s: wait until so long after the first step began", parseAt, nil},
	{"until", "until APP ready, or until APP has N ready, or until POD gone, " +
		"or until NODE ready, or until NODE unknown", parseUntil, nil},

	{"drain", "drain NODE [FLAG…]", func(w words) (action, bool) {
		return kubectl(append([]string{"drain", "--ignore-daemonsets", "--delete-emptydir-data"}, w...)...),
			len(w) > 0 && !strings.HasPrefix(w[0], "-")
	}, always},
	{"rollout", "rollout APP", func(w words) (action, bool) {
		return kubectl("rollout", "restart", "deployment/"+w.rest()), len(w) == 1
	}, nil},
	{"scale", "scale APP N", func(w words) (action, bool) {
		if len(w) != 2 {
			return nil, false
		}
		_, err := strconv.Atoi(w[1])
		return kubectl("scale", "deployment/"+w[0], "--replicas="+w[1]), err == nil
	}, nil},
	{"delete", "delete POD [FLAG…]", func(w words) (action, bool) {
		return kubectl(append([]string{"delete", "pod", "--wait=false"}, w...)...), len(w) > 0
	}, nil},
	{"force-delete", "force-delete POD", func(w words) (action, bool) {
		return kubectl("delete", "pod", w.rest(), "--grace-period=0", "--force", "--wait=false"), len(w) == 1
	}, nil},
	{"patch", "patch KIND/NAME JSON", func(w words) (action, bool) {
		return kubectl("patch", slices.Concat(w, []string{""})[0], "--type=merge", "-p", w[min(1, len(w)):].rest()),
			len(w) > 1 && strings.Contains(w[0], "/")
	}, namesANode},
	{"kubectl", "kubectl ARG…", func(w words) (action, bool) { return kubectl(w...), len(w) > 0 }, namesANode},
	{"apply", "apply NAME.yaml: a further section of the scenario", func(w words) (action, bool) {
		return func(ctx context.Context, p *play) error { return p.applyFurther(ctx, w[0]) }, len(w) == 1
	}, nil},
	{"renew", "renew certificate: put a fresh one into the Secret; nothing is restarted", parseRenew, nil},
	{"cordon", "cordon NODE", func(w words) (action, bool) {
		return kubectl("cordon", w.rest()), len(w) == 1
	}, always},
	{"uncordon", "uncordon NODE", func(w words) (action, bool) {
		return kubectl("uncordon", w.rest()), len(w) == 1
	}, always},
	{"taint", "taint NODE KEY=VALUE:EFFECT", parseTaint, always},

	{"stop", "stop PROCESS (SIGSTOP); a PROCESS is " + processUsage, onProcess(stopProcess), isComponent},
	{"continue", "continue PROCESS (SIGCONT)", onProcess(continueProcess), isComponent},
	{"kill", "kill server of POD (SIGKILL)", func(w words) (action, bool) {
		do, ok := onProcess(killProcess)(w)
		return do, ok && !isComponent(w)
	}, nil},
	{"restart", "restart COMPONENT, as a PROCESS but for servers", parseRestart, always},
	{"cut", "cut NODE from PEER: drop packets between them; a PEER is api, all, a NODE or an address",
		parseCut, always},
	{"flush", "flush NODE of ADDRESS: its connection tracking forgets the connections to the Pod that has the address",
		parseFlush, always},
	{"restore", "restore NODE: end all cuts of it", parseRestore, nil},
	{"call", "call POD PATH: a request to its server", func(w words) (action, bool) {
		return func(ctx context.Context, p *play) error {
			w := p.expand(w)
			_, err := p.get(ctx, w[0], w[1])
			return err
		}, len(w) == 2 && strings.HasPrefix(w[1], "/")
	}, nil},
}

// namesANode reports whether a command of kubectl's is about a node.
func namesANode(w words) bool {
	return slices.ContainsFunc(w, func(word string) bool {
		return word == "node" || word == "nodes" || strings.HasPrefix(word, "node/") ||
			strings.HasPrefix(word, "nodes/")
	})
}

// steps reads the section of that name.
func (p *parser) steps(lines []line) (steps []Step) {
	p.section = stepsSection
	for _, l := range lines {
		if s, ok := p.step(l); ok {
			steps = append(steps, s)
		}
	}
	return steps
}

func (p *parser) step(l line) (Step, bool) {
	s := Step{Line: l.number, Text: l.text}
	w := words(strings.Fields(l.text))
	for len(w) > 1 && (w[0] == "try" || w[0] == "meanwhile") {
		s.Try, s.Background = s.Try || w[0] == "try", s.Background || w[0] == "meanwhile"
		w = w[1:]
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == w[0] })
	if i < 0 {
		p.wrong(l.number, "unknown step %q: want one of %s", w[0], verbNames())
		return s, false
	}
	var ok bool
	if s.do, ok = verbs[i].parse(w[1:]); !ok {
		p.wrong(l.number, "%q: want `%s`", l.text, verbs[i].usage)
		return s, false
	}
	if w[0] == "apply" && !slices.Contains(p.further, w[1]) {
		p.wrong(l.number, "%q: the scenario has no section %s", l.text, w[1])
	}
	s.Shared = verbs[i].shared != nil && verbs[i].shared(w[1:]) && !p.ofPodAddress(w)
	if w[0] == "let" {
		p.defined[w[1]] = true
		p.addresses[w[1]] = w[3:].is("address of POD")
	}
	p.variables(l)
	return s, true
}

// ofPodAddress reports whether a step concerns packets of one Pod only, whose address its last word is.
func (p *parser) ofPodAddress(w words) bool {
	name, ok := strings.CutPrefix(w[len(w)-1], "$")
	return ok && p.addresses[name] && (w[0] == "cut" || w[0] == "flush")
}

func verbNames() string {
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return strings.Join(names, ", ")
}

// kubectl returns a step that is one command of kubectl.
func kubectl(args ...string) action {
	return func(ctx context.Context, p *play) error { return p.kubectl(ctx, p.expand(args)...) }
}

func parseAfter(w words) (action, bool) {
	d, err := time.ParseDuration(w.rest())
	return func(ctx context.Context, _ *play) error { return sleep(ctx, d) }, err == nil && d > 0
}

func parseAt(w words) (action, bool) {
	d, err := time.ParseDuration(w.rest())
	return func(ctx context.Context, p *play) error { return sleep(ctx, time.Until(p.began.Add(d))) },
		err == nil && d > 0
}

func parseTaint(w words) (action, bool) {
	if len(w) != 2 || !strings.Contains(w[1], ":") {
		return nil, false
	}
	return func(ctx context.Context, p *play) error {
		w := p.expand(w)
		p.undoing("taint "+w[0]+" "+w[1], func(ctx context.Context) error {
			_, err := p.ask(ctx, "taint", "nodes", w[0], w[1]+"-") // Lapse may have ended, and print nothing more
			return err
		})
		return p.kubectl(ctx, "taint", "nodes", w[0], w[1])
	}, true
}

func parseLet(w words) (action, bool) {
	if len(w) < 4 || w[1] != "=" || !regexp.MustCompile(`^[a-z]+$`).MatchString(w[0]) {
		return nil, false
	}
	of := w[2:]
	for _, v := range values {
		if of.is(v.pattern) {
			return func(ctx context.Context, p *play) error {
				value, err := v.find(ctx, p, p.expand(of))
				if err == nil {
					p.vars[w[0]] = value
				}
				return err
			}, true
		}
	}
	return nil, false
}

// values are what a variable can be.
var values = []struct {
	pattern string
	find    func(ctx context.Context, p *play, of words) (string, error)
}{
	{"pod of APP", func(ctx context.Context, p *play, of words) (string, error) {
		return p.pod(ctx, of[2], "", false)
	}},
	{"pod of APP on NODE", func(ctx context.Context, p *play, of words) (string, error) {
		return p.pod(ctx, of[2], of[4], false)
	}},
	{"youngest pod of APP", func(ctx context.Context, p *play, of words) (string, error) {
		return p.pod(ctx, of[3], "", true)
	}},
	{"busiest pod of APP", func(ctx context.Context, p *play, of words) (string, error) {
		return p.busiest(ctx, of[3])
	}},
	{"node of POD", func(ctx context.Context, p *play, of words) (string, error) {
		return p.field(ctx, "pod/"+of[2], "{.spec.nodeName}")
	}},
	{"address of POD", func(ctx context.Context, p *play, of words) (string, error) {
		return p.field(ctx, "pod/"+of[2], "{.status.podIP}")
	}},
}

func parseUntil(w words) (action, bool) {
	switch {
	case w.is("APP ready") && !isNode(w[0]):
		return func(ctx context.Context, p *play) error { return p.untilReady(ctx, w[0]) }, true
	case w.is("APP has N ready"):
		n, err := strconv.Atoi(w[2])
		return func(ctx context.Context, p *play) error { return p.untilEndpoints(ctx, w[0], n) }, err == nil
	case w.is("POD gone"):
		return func(ctx context.Context, p *play) error {
			return p.kubectl(ctx, "wait", "--for=delete", "pod/"+p.expand(w)[0], "--timeout=60s")
		}, true
	case w.is("NODE ready"), w.is("NODE unknown"):
		status := map[string]string{"ready": "True", "unknown": "Unknown"}[w[1]]
		return func(ctx context.Context, p *play) error {
			return p.kubectl(ctx, "wait", "--for=condition=Ready="+status, "node/"+p.expand(w)[0], "--timeout=100s")
		}, true
	}
	return nil, false
}
