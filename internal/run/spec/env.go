package spec

import (
	"strings"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/run/exit"
)

// An Env is the environment of this process. The zero value is that of a process outside of Pods.
type Env map[string]string

// EnvOf returns the environment in a list of variables, as [os.Environ] returns it.
func EnvOf(environ []string) Env {
	env := Env{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	return env
}

// ProberKeys returns the mutual-TLS keys of coordinator and probers, which the Job or the DaemonSet has put into the
// environment.
func (e Env) ProberKeys() agent.KeyPair {
	return agent.KeyPair{
		CA:   []byte(e[deploy.EnvTLSCA]),
		Cert: []byte(e[deploy.EnvTLSCert]),
		Key:  []byte(e[deploy.EnvTLSKey]),
	}
}

// list returns the variables as [os.Environ] returns them.
func (e Env) list() (environ []string) {
	for name, value := range e {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// agentEnv fills in the options of an agent from its Job's environment. A Job written by hand has flags as its
// container's arguments; a Job that Lapse made has a Spec.
func agentEnv(o *Options) error {
	o.AgentListen = o.Env[deploy.EnvListen]
	if o.AgentListen == "" {
		return nil
	}
	var err error
	if text := o.Env[deploy.EnvSpec]; text != "" {
		if len(o.Targets)+len(o.Given) > 0 {
			return exit.Usagef("edit "+deploy.EnvSpec+", or remove it and write all flags as arguments",
				"the container has both arguments and %s", deploy.EnvSpec)
		}
		if o.Spec, err = readSpec(text, o.Env[deploy.EnvPrivate]); err != nil {
			return err
		}
		o.carried, o.Kube.Namespace, o.From = true, o.Namespace, o.ProberNodes
	} else if !o.WasGiven("workstation-timeout") {
		o.WorkstationTimeout = 0 // no workstation runs a command
	}
	o.addSecrets(o.Env.list())
	o.Here = true
	o.ID = o.Env[deploy.EnvRun]
	o.Out = o.Env[deploy.EnvDir]
	o.ExternalCommand = o.Duration == 0 && !o.Armed
	if o.Hold, err = time.ParseDuration(o.Env[deploy.EnvHold]); err != nil {
		return exit.Usagef("the Job sets it", "%s: %w", deploy.EnvHold, err)
	}
	deadline, err := time.ParseDuration(o.Env[deploy.EnvDeadline])
	if err != nil {
		return exit.Usagef("the Job sets it", "%s: %w", deploy.EnvDeadline, err)
	}
	// Kubernetes deletes the Pod at the deadline, with all it holds: the run ends well before.
	o.MaxDuration = deadline - o.Hold
	return nil
}
