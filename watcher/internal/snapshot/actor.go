package snapshot

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner returns KIND/NAME of an object's controller, or "".
func Owner(o metav1.Object) string {
	if c := metav1.GetControllerOf(o); c != nil {
		return c.Kind + "/" + c.Name
	}
	return ""
}

// Actor returns the field manager that last changed an object's spec: "kubectl-client-side-apply". The API server
// stamps an entry of managedFields when its manager changes a field, with the second. Actor returns "" if two
// managers did within one second, or if there are no managedFields.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
func Actor(o metav1.Object) string {
	var actor string
	var last time.Time
	for _, m := range o.GetManagedFields() {
		if m.Time == nil || m.Subresource == "status" || !owns(m, "f:spec") {
			continue
		}
		switch {
		case m.Time.After(last):
			actor, last = m.Manager, m.Time.Time
		case m.Time.Time.Equal(last) && m.Manager != actor:
			actor = ""
		}
	}
	return actor
}

// owns reports whether a manager set a field.
func owns(m metav1.ManagedFieldsEntry, field string) bool {
	return strings.Contains(m.FieldsV1.GetRawString(), `"`+field+`"`)
}

// controllers are the programs that the HorizontalPodAutoscaler's controller is part of. Their names are its field
// managers.
var controllers = []string{"kube-controller-manager", "k3s", "k3s-server"}

// Autoscaled reports whether an autoscaler last set a workload's replicas. No other controller of these programs uses
// the scale subresource.
func Autoscaled(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Subresource == "scale" && owns(m, "f:replicas") && slices.Contains(controllers, m.Manager)
	})
}
