package resolve

import (
	"context"
	"log/slog"
	"slices"
	"strconv"

	"lapse/deploy"
	"lapse/internal/run/access"
	"lapse/internal/run/spec"
)

// Job returns the Job of a run. It checks all that can be checked before the Job is created: the choices of the
// options, all rights at once, and the Services. It fills in the options with what the cluster says of them.
func Job(ctx context.Context, o *spec.Options, c *access.Cluster, log *slog.Logger) (deploy.Config, error) {
	return (&resolver{o, c, log}).job(ctx)
}

func (r *resolver) job(ctx context.Context) (deploy.Config, error) {
	if err := r.choose(ctx); err != nil {
		return deploy.Config{}, err
	}
	config := JobConfig(r.Options, r.c.Namespace)
	if err := config.Validate(); err != nil {
		return config, err
	}
	if err := r.checkRights(ctx, &config); err != nil {
		return config, err
	}
	if err := r.describeServices(ctx, &config); err != nil {
		return config, err
	}
	return config, config.Validate()
}

// PrintedJob returns the Job that measures what the flags ask for, to be applied by hand. With --from its agent does
// the workstation's part: it finds out which nodes are meant, makes keys, and deletes the probers at the end. Only a
// number of nodes is chosen now, because the DaemonSet names them: that asks the cluster.
func PrintedJob(
	ctx context.Context, o *spec.Options, namespace string, readNodes bool,
) (config deploy.Config, err error) {
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
	if o.ProberNodes != "" {
		if config.Probers, config.ProberLabels, err = spec.Placed(o.ProberNodes); err != nil {
			return config, err
		}
	}
	return config, config.Validate()
}

// JobConfig returns the Job that the options describe.
func JobConfig(o *spec.Options, namespace string) deploy.Config {
	o.Namespace = namespace
	return deploy.Config{
		Name:            o.ID,
		Namespace:       namespace,
		Image:           o.Image,
		ImagePullSecret: o.ImagePullSecret,
		CPU:             o.CPU,
		Hold:            o.Hold,
		Deadline:        o.MaxDuration + o.Hold,
		AvoidNodes:      o.AvoidNodes,
		NodesAccess:     true,
		Probers:         o.Probers,
		CanaryPods:      o.CanaryPods(),
		Namespaces:      o.OtherNamespaces(namespace),
		AllNamespaces:   o.AllNamespaces,
		Args:            []string{"run"},
		Spec:            spec.MustMarshal(o.Spec),
		Private:         o.Secrets(),
		HeadersFrom:     o.HeadersFrom,
		EchoFrom:        o.EchoFrom,
	}
}
