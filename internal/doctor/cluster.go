package doctor

import (
	"context"
	"errors"
	"strings"

	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/image"
	"lapse/internal/run/access"
)

// Cluster returns what a cluster allows a run in one of its namespaces whose Job is as config says. registry is asked
// for the Job's image if no node has it.
func Cluster(ctx context.Context, c *access.Cluster, config deploy.Config, registry image.Registry) []Finding {
	var findings []Finding
	if version, err := c.Client.Version(ctx); err == nil {
		findings = append(findings, Finding{Check: "API server", Level: OK, Found: "answers, " + version.GitVersion})
	}
	if err := c.NamespaceExists(ctx); err != nil {
		return append(findings, found("namespace", "", Fail, err))
	}
	findings = append(findings, rights(ctx, c)...)
	return append(findings, admitted(ctx, c, config), pullable(ctx, c, config.Image, registry))
}

// admitted reports whether the namespace lets the run's Job and Pod in.
func admitted(ctx context.Context, c *access.Cluster, config deploy.Config) Finding {
	err := deploy.DryRun(ctx, c.Client, config)
	level := Fail
	if _, warns := errors.AsType[*deploy.WarningError](err); warns {
		level = Warn
	}
	return found("admission", "namespace "+c.Namespace+" lets the run's Job and Pod in", level, err)
}

// verbs are what needs rights in the cluster. All need those of the first.
var verbs = []struct {
	name string
	need deploy.Needs
}{
	{"lapse run", deploy.Needs{Nodes: true}},
	{"lapse run --from", deploy.Needs{Nodes: true, Secret: true, Probers: true}},
	{"lapse routes", deploy.Needs{Nodes: true, Secret: true, Probers: true, Canary: true}},
}

// rights returns what the user's rights are enough for.
func rights(ctx context.Context, c *access.Cluster) []Finding {
	var findings []Finding
	for i, verb := range verbs {
		check, level := "rights: "+verb.name, Warn
		if i == 0 {
			level = Fail
		}
		missing, err := deploy.CheckRights(ctx, c.Client, c.Namespace, verb.need)
		if err != nil {
			return append(findings, found(check, "", Warn, err))
		}
		unwatched, needed := new(deploy.Config).Without(missing)
		switch {
		case len(needed) > 0:
			findings = append(findings, found(check, "", level, deploy.NoRights(needed)))
		case len(unwatched) > 0 && i == 0:
			findings = append(findings, found(check, "", Warn, hint.Errorf(
				"ask for the right to get, list and watch them: `lapse help rights`",
				"enough, but not to read %s: causes are judged without them", strings.Join(unwatched, ", "))))
		default:
			findings = append(findings, Finding{Check: check, Level: OK, Found: "enough"})
		}
		if i == 0 && len(needed) > 0 {
			return findings // what the other verbs need begins with these
		}
	}
	return findings
}
