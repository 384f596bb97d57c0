package resolve

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// chooseProbers sets Spec.Probers to the nodes that --from chooses.
func chooseProbers(ctx context.Context, o *spec.Options, client kube.Client) error {
	if o.From == "" {
		return nil
	}
	options := metav1.ListOptions{}
	if spec.IsSelector(o.From) {
		options.LabelSelector = o.From
	}
	nodes, err := client.Nodes().List(ctx, options)
	if apierrors.IsForbidden(err) {
		return exit.Usagef("ask for the right to list nodes, or leave out --from",
			"--from %s: no right to list nodes: %w", o.From, err)
	}
	if err != nil {
		return fmt.Errorf("--from %s: list nodes: %w", o.From, err)
	}
	o.Probers, err = spec.ChosenNodes(o.From, nodes.Items, o.AvoidNodes)
	return err
}
