package deploy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/hint"
)

// imageError returns the error of a cluster that cannot pull or run the image of a Pod in a namespace.
func imageError(reason, message, image, namespace string) error {
	return hint.Add(imageHint(image, message, namespace),
		&StartError{Reason: reason, Message: message, Image: image, refused: true})
}

// judgePlatform returns an error if a container's binary is for another platform than its node's.
func judgePlatform(pod *corev1.Pod) error {
	for _, status := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if ended := state.Terminated; ended != nil && strings.Contains(ended.Message, execFormatError) {
				return imageError(ended.Reason, terminated(ended), status.Image, pod.Namespace)
			}
		}
	}
	return nil
}

const execFormatError = "exec format error"

// imageHint returns what to do about an image, from what containerd, CRI-O or its registry says of it.
func imageHint(image, message, namespace string) string {
	says := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(message, text) {
				return true
			}
		}
		return false
	}
	registry, named := registryOf(image)
	switch {
	case says(execFormatError, "no match for platform", "no image found in manifest list"):
		return "the image has no binary for this node's platform: " +
			"`lapse image push REGISTRY/NAME` with --binary linux/amd64=PATH or --binary linux/arm64=PATH adds it"
	case !named || strings.HasPrefix(image, "docker.io/library/"):
		return pushHint
	case says("HTTP response to HTTPS client"):
		return "the nodes ask the registry over TLS, which it does not speak: on each node, name http://" + registry +
			" in /etc/containerd/certs.d/" + registry + "/hosts.toml"
	case says("x509:"):
		return "the nodes do not trust the registry: on each node, put its certificate into /etc/containerd/certs.d/" +
			registry + "/ca.crt"
	case says("unauthorized", "authorization failed", "authentication required", "access denied",
		"401 Unauthorized", "403 Forbidden", "no basic auth credentials", "insufficient_scope"):
		return "the nodes may not pull it: " + PullSecret(image, namespace)
	case says("no such host", "i/o timeout", "connection refused", "no route to host"):
		return "the nodes do not reach " + registry + ": " + pushHint
	case says("not found", "manifest unknown", "name unknown"):
		return pushHint
	}
	return pushHint + "; if the registry asks for a login: --image-pull-secret"
}

// registryOf returns an image's registry as kubectl create secret has it, and whether the image's name has more than
// one word.
func registryOf(image string) (registry string, named bool) {
	registry, _, named = strings.Cut(image, "/")
	if !strings.ContainsAny(registry, ".:") && registry != "localhost" || registry == "docker.io" {
		registry = "https://index.docker.io/v1/"
	}
	return registry, named
}

// PullSecret returns the line that gives the nodes a login for an image's registry, and the flag to use it.
func PullSecret(image, namespace string) string {
	registry, _ := registryOf(image)
	return "`kubectl create secret docker-registry lapse-pull -n " + namespace + " --docker-server=" + registry +
		" --docker-username=USER --docker-password=PASSWORD`, then --image-pull-secret lapse-pull"
}

const pushHint = "push the image where the nodes can pull it: `lapse image push REGISTRY/NAME`; " +
	"for kind, k3d or minikube: `lapse image load`"
