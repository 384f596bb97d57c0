package run

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// PrintedJob is the Job that measures what the flags ask for, for somebody to apply. With --from its agent does what
// a workstation does otherwise: it finds out which nodes are meant, makes keys, and deletes the probers at the end.
// Only a number of nodes has to be chosen now, because the DaemonSet names them: that asks the cluster.
func PrintedJob(ctx context.Context, o *spec.Options, namespace string, readNodes bool) (config deploy.Config, err error) {
	if _, err := strconv.Atoi(o.From); err == nil {
		c, err := o.Kube.Connect(ctx)
		if err != nil {
			return config, err
		}
		if err := chooseProbers(ctx, o, c.Client); err != nil {
			return config, err
		}
	} else {
		o.ProberNodes = o.From
	}
	config = JobConfig(o, namespace)
	byNodePort := slices.ContainsFunc(o.Parsed, spec.Target.NeedsNodes)
	config.NodesAccess, config.Unattended = readNodes || o.From != "" || byNodePort, o.From != ""
	switch {
	case o.ProberNodes == "":
	case o.ProberNodes == "all":
		config.ProberLabels = labels.Everything()
	case spec.IsSelector(o.ProberNodes):
		if config.ProberLabels, err = labels.Parse(o.ProberNodes); err != nil {
			return config, exit.Usagef(spec.FromHint, "from %q: %w", o.From, err)
		}
	default:
		config.Probers = spec.NamedNodes(o.ProberNodes)
	}
	return config, config.Validate()
}

// coordinatorKeys are what the run's coordinator knows its probers by, and they it. An agent that somebody has
// applied makes them.
func (m *measurement) coordinatorKeys(ctx context.Context, namespace string) (agent.KeyPair, error) {
	secret := m.opts.Env[deploy.EnvKeys]
	if secret == "" {
		return keysOf(m.opts.Env), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return deploy.HandOutKeys(ctx, m.client, namespace, m.opts.Env[deploy.EnvPod], secret, m.opts.MaxDuration+m.opts.Hold)
}

// dismissProbers deletes the probers of a run that somebody has applied, once there is nothing more for them to
// measure. Otherwise the workstation does.
func (m *measurement) dismissProbers() {
	if m.opts.Env[deploy.EnvKeys] == "" || m.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	namespace := m.opts.Env[deploy.EnvNamespace]
	if err := deploy.DismissProbers(ctx, m.client, namespace, m.opts.ID); err != nil {
		m.log.Warn("the probers stay until somebody deletes them: `lapse delete -n "+namespace+" "+m.opts.ID+"`", "error", err)
	}
}
