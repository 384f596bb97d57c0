package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/image"
	"lapse/internal/run/access"
)

// registryTimeout is how long a registry may take to answer.
const registryTimeout = 15 * time.Second

// mostListed is how many images a node lists, the largest ones: --node-status-max-images of the kubelet.
const mostListed = 50

// pullable reports whether nodes have an image, or its registry has it for their platforms. A node that lists as many
// images as it may can have others.
func pullable(ctx context.Context, c *access.Cluster, called string, registry image.Registry) Finding {
	const push = "`lapse image push REGISTRY/NAME` pushes it and remembers it for this context; " +
		"`lapse image load` for kind, k3d and minikube"
	want, err := name.ParseReference(called)
	if err != nil {
		return found("image", "", Fail, hint.Add(push, err))
	}
	where := called + ": whether nodes have it is not known"
	var nodes []corev1.Node
	allListed := false
	if list, err := c.Client.Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		nodes = list.Items
		allListed = !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return len(n.Status.Images) >= mostListed })
		have := 0
		for _, node := range nodes {
			if hasImage(node, want) {
				have++
			}
		}
		where = fmt.Sprintf("%s is on %d of %s", called, have, quantity.Count(len(nodes), "node"))
		if have > 0 {
			return Finding{Check: "image", Level: OK, Found: where}
		}
	}
	if strings.HasPrefix(want.Context().Name(), name.DefaultRegistry+"/library/") {
		return Finding{Check: "image", Level: Warn, Found: where + ", and was not pushed to a registry", Fix: push}
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	published, err := registry.Published(ctx, want)
	switch {
	case image.IsMissing(err) && allListed:
		return found("image", "", Fail, fmt.Errorf("%s: %w", where, err))
	case err != nil:
		advice := strings.TrimPrefix(hint.Of(err)+"\n", "\n") + "for nodes without a login: " +
			deploy.PullSecret(called, c.Namespace)
		return found("image", "", Warn,
			hint.Add(advice, fmt.Errorf("%s: whether nodes can pull it is not known: %w", where, err)))
	}
	return inRegistry(called, published, nodes)
}

// inRegistry judges what a registry has of an image by the platforms of the nodes.
func inRegistry(called string, published image.Published, nodes []corev1.Node) Finding {
	text := called + " is in its registry, for " + strings.Join(published.Platforms, " and ")
	linux, lacking, platform := 0, 0, ""
	for _, node := range nodes {
		info := node.Status.NodeInfo
		if info.OperatingSystem != "linux" {
			continue
		}
		linux++
		if its := "linux/" + info.Architecture; !slices.Contains(published.Platforms, its) {
			lacking, platform = lacking+1, its
		}
	}
	if lacking > 0 {
		level := Warn
		if lacking == linux {
			level = Fail
		}
		return Finding{
			Check: "image", Level: level,
			Found: fmt.Sprintf("%s, not for %s: %d of %s cannot run it", text, platform, lacking,
				quantity.Count(linux, "node")),
			Fix: "push it again from a release archive, or with --binary " + platform + "=PATH",
		}
	}
	if published.Login {
		text += "; asked with your login: nodes without one need --image-pull-secret"
	}
	return Finding{Check: "image", Level: OK, Found: text}
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
