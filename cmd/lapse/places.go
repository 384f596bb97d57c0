package main

import (
	"slices"
	"strings"

	"lapse/run"
	"lapse/run/exit"

	"github.com/spf13/pflag"
)

// A place is where a run takes place. Each flag means something in some of them only, and is refused in the others:
// what is ignored without a word is believed to hold.
type place uint8

const (
	hereURL     place = 1 << iota // this machine, and the cluster is not asked
	hereService                   // this machine, and a Service is measured (--here) or watched (--watch)
	inJob                         // a Job that `lapse run` creates
	inYAML                        // a Job that `lapse gen` prints

	fromHere  = hereURL | hereService
	ofJob     = inJob | inYAML
	ofCluster = hereService | ofJob
	attended  = fromHere | inJob // somebody waits for the result
	always    = attended | inYAML
)

func (p place) String() string {
	switch p {
	case hereURL:
		return "a run on a URL"
	case hereService:
		return "a run from this machine"
	case inJob:
		return "a run in the cluster"
	case inYAML:
		return "a Job that is applied by hand"
	}
	return "another run"
}

// usedIn says of each flag of `lapse run` and `lapse gen` where it has an effect.
var usedIn = map[string]place{
	"namespace": ofCluster, "kubeconfig": ofCluster, "context": ofCluster,

	"on-node": inJob, "all-namespaces": inJob, "selector": inJob,
	"rate": always, "total-rate": always, "duration": always, "baseline": always, "settle": always, "timeout": always, "connections": always, "held": always, "heartbeat": always, "join": always,
	"slow": always, "resolution": always, "min-coverage": always, "target": always, "pacing": always, "fail-if": always, "method": always,
	"host": always, "expect-status": always, "expect-body": always, "backend-header": always, "ca-file": always, "hammer": always,
	"grpc-method": always, "grpc-descriptors": always,
	"watch":       always, // here it makes a run on a URL ask the cluster
	"direct-rate": ofCluster, "scheme": ofCluster, "no-preflight": ofCluster, "preflight-baseline": ofCluster,
	"header": attended, "echo": attended, "grpc-message": attended, // gen would print them
	"header-from": ofJob, "echo-from": ofJob,

	"out": attended, "output": attended, "verbose": attended, "dashboard": attended, "no-capture": attended,

	"here":  fromHere,
	"image": ofJob, "cpu": ofJob, "image-pull-secret": ofJob, "avoid-node": ofJob, "max-duration": ofJob, "hold": ofJob,
	"from": ofJob, "wait": ofJob, "min-node-coverage": ofJob,
	"workstation-timeout": inJob,
	"read-nodes":          inYAML,
}

// instead says what to do about a flag that has no effect.
var instead = map[string]string{
	"header":       run.SecretHint,
	"echo":         "put the text into the key \"echo\" of a Secret in the Service's namespace, and give --echo-from secret/NAME",
	"grpc-message": "name a method that can be called with the empty message, or measure from this machine or by `lapse run`",
	"header-from":  "give the header itself with --header: it stays on this machine",
	"echo-from":    "give the text itself with --echo: it stays on this machine",
	"out":          "`lapse retrieve RUN -n NAMESPACE --out DIR` fetches the result",
	"output":       "`lapse retrieve RUN -n NAMESPACE -o FORMAT` prints the result",
	"verbose":      "`lapse retrieve RUN -n NAMESPACE -v` prints the result",
	"dashboard":    "`lapse attach RUN -n NAMESPACE --dashboard ADDR` serves the page",
	"no-capture":   "it is for a command after --",
	"here":         "drop it: `lapse gen` prints a Job",

	"workstation-timeout": "only the run of a command waits for the workstation that runs it",
	"direct-rate":         "Pods are measured at their own addresses where their Service is known: add --watch svc/NAME",
	"no-preflight":        "preflight is of a Service: without one nothing is predicted",
	"preflight-baseline":  "preflight is of a Service: add --watch svc/NAME",
	"namespace":           "add --watch svc/NAME to ask the cluster too",
	"kubeconfig":          "add --watch svc/NAME to ask the cluster too",
	"context":             "add --watch svc/NAME to ask the cluster too",
	"scheme":              "a URL has its own scheme",
	"on-node":             chosenInJob,
	"all-namespaces":      chosenInJob,
	"selector":            chosenInJob,
}

const chosenInJob = "`lapse run` chooses Services for the Job that it creates: name them here, as in svc/web"

// placeOf is where the run takes place.
func placeOf(o *run.Options) place {
	switch {
	case o.YAML:
		return inYAML
	case o.InCluster():
		return inJob
	case o.CountServices() > 0 || o.Watch != "":
		return hereService
	}
	return hereURL
}

// checkPlace refuses flags that were given and have no effect.
func checkPlace(o *run.Options) error {
	if o.AgentListen != "" {
		return nil // the workstation has checked
	}
	at := placeOf(o)
	var unused []string
	o.Given(func(f *pflag.Flag) {
		if !f.Hidden && usedIn[f.Name]&at == 0 {
			unused = append(unused, f.Name)
		}
	})
	switch {
	case len(unused) > 0:
		slices.Sort(unused)
		hint := "drop it"
		if at&ofJob == 0 && usedIn[unused[0]]&ofJob == usedIn[unused[0]] {
			hint = "drop it, or measure a Service from a Job: `lapse run svc/NAME`"
		}
		if other, ok := instead[unused[0]]; ok {
			hint = other
		}
		if at == inYAML && slices.Contains([]string{"header", "echo", "grpc-message"}, unused[0]) {
			return exit.Usagef(hint, "--%s would be printed, for all to read", unused[0])
		}
		has := "has"
		if len(unused) > 1 {
			has = "have"
		}
		return exit.Usagef(hint, "--%s %s no effect on %s", strings.Join(unused, ", --"), has, at)
	case o.Changed("no-capture") && len(o.Command) == 0:
		return exit.Usagef("drop it", "--no-capture has no effect without a command")
	case o.Changed("workstation-timeout") && len(o.Command) == 0:
		return exit.Usagef("drop it: the run ends after --duration", "--workstation-timeout has no effect without a command")
	case o.Changed("scheme") && o.CountServices() == 0:
		return exit.Usagef(instead["scheme"], "--scheme has no effect on %s", o.Targets[0])
	}
	return nil
}
