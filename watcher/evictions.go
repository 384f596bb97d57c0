package watcher

import (
	"context"
	"slices"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube"
	"lapse/timeline"
)

// evictionRequests watches the EvictionRequests for the Services' Pods, where the API server serves them.
func (n *namespace) evictionRequests() *reflector[*lifecyclev1alpha1.EvictionRequest] {
	return &reflector[*lifecyclev1alpha1.EvictionRequest]{
		kind:     "EvictionRequest",
		resource: "evictionrequests.lifecycle.k8s.io",
		source:   from(n.Client.EvictionRequests(n.name)),
		served:   func(ctx context.Context) (bool, error) { return ServesEvictionRequests(ctx, n.Client) },
		services: n.keys(),
		in:       n.name,
		change: func(old, new *lifecyclev1alpha1.EvictionRequest, how origin) []timeline.Event {
			return n.ours(diffEvictionRequest(old, new, how))
		},
		w: n.watcher,
	}
}

// ServesEvictionRequests reports whether the API server has EvictionRequests. Without the right to ask, it may have.
func ServesEvictionRequests(ctx context.Context, client kube.Client) (bool, error) {
	list, err := client.Resources(ctx, lifecyclev1alpha1.SchemeGroupVersion.String())
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	isIt := func(r metav1.APIResource) bool { return r.Name == "evictionrequests" }
	return slices.ContainsFunc(list.APIResources, isIt), nil
}

// diffEvictionRequest returns an event about the Pod if the request is new, withdrawn, renewed or deleted. old or new
// may be nil.
func diffEvictionRequest(old, new *lifecyclev1alpha1.EvictionRequest, how origin) []timeline.Event {
	e := timeline.Event{Kind: timeline.EvictionRequested, From: intentOf(old), To: intentOf(new), Writer: apiserver}
	is := new
	switch {
	case new == nil:
		is = old
	case old == nil:
		if e.Stamp = new.CreationTimestamp.Time; how == listed {
			e.From = ""
		}
	}
	pod := is.Spec.Target.Pod
	if pod == nil || e.From == e.To {
		return nil
	}
	e.Object = timeline.Object{Kind: "Pod", Namespace: is.Namespace, Name: pod.Name, UID: string(pod.UID)}
	e.Actor, e.Detail = is.Spec.Requester, is.Name
	return []timeline.Event{e}
}

func intentOf(r *lifecyclev1alpha1.EvictionRequest) string {
	if r == nil {
		return timeline.EvictionNotRequested
	}
	return string(r.Spec.Intent)
}
