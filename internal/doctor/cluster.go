package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/run/access"
)

// Cluster returns what a cluster allows a run in one of its namespaces whose Job is as config says.
func Cluster(ctx context.Context, c *access.Cluster, config deploy.Config) []Finding {
	var findings []Finding
	if version, err := c.Client.Version(ctx); err == nil {
		findings = append(findings, Finding{Check: "API server", Level: OK, Found: "answers, " + version.GitVersion})
	}
	if err := c.NamespaceExists(ctx); err != nil {
		return append(findings, found("namespace", "", Fail, err))
	}
	findings = append(findings, rights(ctx, c)...)
	return append(findings, admitted(ctx, c, config), imageOnNodes(ctx, c, config.Image))
}

// admitted reports whether the namespace lets the run's Job and Pod in.
func admitted(ctx context.Context, c *access.Cluster, config deploy.Config) Finding {
	err := deploy.DryRun(ctx, c.Client, config)
	level := Fail
	if _, unchecked := errors.AsType[*deploy.UncheckedError](err); unchecked {
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

// imageOnNodes reports on how many nodes an image is. A node lists its 50 largest images only, so that absence proves
// nothing.
func imageOnNodes(ctx context.Context, c *access.Cluster, image string) Finding {
	const push = "`lapse image push REGISTRY/NAME` pushes it and remembers it for this context; " +
		"`lapse image load` for kind, k3d and minikube"
	want, err := name.ParseReference(image)
	if err != nil {
		return found("image", "", Fail, hint.Add(push, err))
	}
	nodes, err := c.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return found("image", "", Warn, fmt.Errorf("%s: whether nodes have it is not known: %w", image, err))
	}
	have := 0
	for _, node := range nodes.Items {
		if hasImage(node, want) {
			have++
		}
	}
	on := fmt.Sprintf("%s is on %d of %s", image, have, quantity.Count(len(nodes.Items), "node"))
	if have > 0 {
		return Finding{Check: "image", Level: OK, Found: on}
	}
	return Finding{Check: "image", Level: Warn, Found: on + ": whether nodes can pull it was not checked", Fix: push}
}

// hasImage reports whether a node lists an image under a name.
func hasImage(node corev1.Node, want name.Reference) bool {
	return slices.ContainsFunc(node.Status.Images, func(i corev1.ContainerImage) bool {
		return slices.ContainsFunc(i.Names, func(listed string) bool {
			got, err := name.ParseReference(listed)
			return err == nil && got.Name() == want.Name()
		})
	})
}
