// Package access finds the cluster that is meant, and checks that its API answers.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lapse/deploy"
	"lapse/internal/kube"
	"lapse/internal/run/exit"
	"lapse/internal/run/version"
)

// Kube says which cluster is meant, in kubectl's own flags.
type Kube struct {
	Kubeconfig string
	Context    string
	Namespace  string

	Burst int // of requests to the API server, twice what it gets per second; default 100

	Client kube.Client // of the cluster, if there is one already
}

// loader reads the kubeconfig.
func (o *Kube) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	chosen := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, chosen)
}

// Given reports whether there is a kubeconfig, or one is named. In a Pod without one its ServiceAccount counts.
func (o *Kube) Given() bool {
	raw, err := o.loader().RawConfig()
	return err != nil || o.Context != "" || len(raw.Contexts) > 0
}

// NamespaceOrDefault returns the flag's namespace, or the kubeconfig's.
func (o *Kube) NamespaceOrDefault() (string, error) {
	if o.Namespace != "" {
		return o.Namespace, nil
	}
	namespace, _, err := o.loader().Namespace()
	if err != nil {
		return "", exit.Usagef(o.noConfigHint(), "no namespace: %w", err)
	}
	return namespace, nil
}

// ContextName returns the name of the context that is meant, or "" if the kubeconfig has none, as in a Pod.
func (o *Kube) ContextName() (string, error) {
	raw, err := o.loader().RawConfig()
	if err != nil {
		return "", exit.Usagef(kubeHint, "no kubeconfig: %w", err)
	}
	if o.Context != "" && raw.Contexts[o.Context] == nil {
		return "", exit.Usagef(o.noConfigHint(), "there is no context %q", o.Context)
	}
	return cmp.Or(o.Context, raw.CurrentContext), nil
}

// noConfigHint names the contexts there are if the one that was asked for is not.
func (o *Kube) noConfigHint() string {
	raw, err := o.loader().RawConfig()
	if err != nil || len(raw.Contexts) == 0 || o.Context == "" || raw.Contexts[o.Context] != nil {
		return kubeHint
	}
	return "the contexts are " + strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
}

// A Cluster is a way to a cluster's API, and the namespace that is meant there.
type Cluster struct {
	config    *rest.Config
	Client    kube.Client
	Namespace string
}

const kubeHint = "set KUBECONFIG or --kubeconfig, and check that `kubectl get namespaces` works"

// Connect finds the cluster, and checks that its API answers.
func (o *Kube) Connect(ctx context.Context) (*Cluster, error) {
	config, err := o.loader().ClientConfig()
	if err != nil {
		return nil, exit.Usagef(o.noConfigHint(), "no cluster: %w", err)
	}
	config.UserAgent = fmt.Sprintf("lapse/%s", version.Version)
	config.Burst = cmp.Or(o.Burst, 100)
	config.QPS = float32(config.Burst) / 2
	namespace, err := o.NamespaceOrDefault()
	if err != nil {
		return nil, err
	}
	if o.Client != nil {
		return &Cluster{config: config, Client: o.Client, Namespace: namespace}, nil
	}
	client, err := kube.New(config)
	if err != nil {
		return nil, exit.Usagef(kubeHint, "no cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := client.Version(ctx); err != nil {
		return nil, unanswered(config.Host, err)
	}
	return &Cluster{config: config, Client: client, Namespace: namespace}, nil
}

// ErrUnanswered is the error of an API server that cannot be reached. It may be soon.
var ErrUnanswered = errors.New("does not answer")

// unanswered says why a cluster's API cannot be used: it rejects the credentials, refuses the request, or does not
// answer.
func unanswered(host string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return exit.Usagef("log in to the cluster again, for a token or a certificate may have expired; "+
			"or name other credentials with --context or --kubeconfig",
			"the API server at %s rejected the credentials: %w", host, err)
	case strings.Contains(err.Error(), "getting credentials: "): // of the kubeconfig's exec plugin
		return exit.Usagef("run `kubectl get namespaces`: it calls the same program; log in again if that fails too",
			"the kubeconfig's program for credentials failed: %w", err)
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return exit.Usagef(kubeHint, "the API server at %s refused to be asked: %w", host, err)
	}
	return exit.Usagef(kubeHint, "the API server at %s %w: %w", host, ErrUnanswered, err)
}

// NamespaceExists returns an error if the cluster does not have the namespace. Without the right to look it returns
// nil.
func (c *Cluster) NamespaceExists(ctx context.Context) error {
	_, err := c.Client.Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return exit.Usagef("name another one with -n; kubectl get namespaces lists them",
			"there is no namespace %q", c.Namespace)
	}
	return nil
}

// FindRun finds a run in the cluster by its name.
func (o *Kube) FindRun(ctx context.Context, name string, log *slog.Logger) (*deploy.Run, error) {
	c, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	run, err := deploy.Find(ctx, c.Deploy(log), c.Namespace, name)
	return run, c.NoRun(ctx, err)
}

// NoRun makes a usage error of the error that there is no run of that name.
func (c *Cluster) NoRun(ctx context.Context, err error) error {
	if _, none := errors.AsType[*deploy.NoRunError](err); none {
		return cmp.Or(c.NamespaceExists(ctx), exit.AsUsage(err))
	}
	return err
}

// REST returns how the client reaches the API.
func (c *Cluster) REST() *rest.Config { return c.config }

// Deploy returns the cluster for package deploy.
func (c *Cluster) Deploy(log *slog.Logger) deploy.Cluster {
	return deploy.Cluster{Client: c.Client, REST: c.config, Logger: log}
}
