package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// A place says where a run measures. A flag that has no effect there is refused: a flag that is silently ignored
// misleads its user.
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

// usedIn has the places where each flag of `lapse run` and `lapse gen` has an effect. instead has what to do in the
// other places.
var usedIn, instead = func() (usedIn map[string]place, instead map[string]string) {
	usedIn, instead = map[string]place{"read-nodes": inYAML}, map[string]string{}
	for _, d := range runTable(new(spec.Options)) {
		if usedIn[d.name] = d.at; d.instead != "" {
			instead[d.name] = d.instead
		}
	}
	return usedIn, instead
}()

const chosenInJob = "`lapse run` chooses Services for the Job that it creates: name them here, as in svc/web"

// placeOf returns where the run measures.
func placeOf(o *spec.Options) place {
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
func checkPlace(o *spec.Options) error {
	if o.AgentListen != "" {
		return nil // the workstation has checked
	}
	at := placeOf(o)
	var unused []string
	for name := range o.Given {
		if usedIn[name]&at == 0 {
			unused = append(unused, name)
		}
	}
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
	case o.WasGiven("no-capture") && len(o.Command) == 0:
		return exit.Usagef("drop it", "--no-capture has no effect without a command")
	case o.WasGiven("workstation-timeout") && len(o.Command) == 0:
		return exit.Usagef("drop it: the run ends after --duration",
			"--workstation-timeout has no effect without a command")
	case o.WasGiven("scheme") && o.CountServices() == 0:
		return exit.Usagef(instead["scheme"], "--scheme has no effect on %s", o.Targets[0])
	}
	return nil
}

// check completes and validates the options that the flags of cmd have filled in.
func check(o *spec.Options, cmd *cobra.Command, args, command []string) error {
	o.Env, o.Given = spec.EnvOf(os.Environ()), given(cmd.Flags())
	if err := o.Complete(args, command); err != nil {
		return err
	}
	if err := checkPlace(o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil || o.AgentListen != "" || placeOf(o)&ofJob == 0 {
		return err
	}
	return chooseImage(o)
}
