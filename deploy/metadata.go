package deploy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An identity distinguishes the objects of a run from those of others.
type identity struct{ name, namespace string }

func (c Config) identity() identity { return identity{name: c.Name, namespace: c.Namespace} }

func (id identity) labels() map[string]string {
	return map[string]string{nameLabel: "lapse", managedLabel: "lapse", RunLabel: id.name}
}

func (id identity) podMeta() metav1.ObjectMeta { return unmeshed(id.labels()) }

func (id identity) proberMeta() metav1.ObjectMeta {
	meta := id.podMeta()
	meta.Labels[PartLabel] = ProberPart
	return meta
}

// unmeshed returns the metadata of a Pod with labels, to which it adds. Service meshes then add no proxy to the Pod,
// which would retry failed requests, outlive the agent and bring an emptyDir, and send nothing through its node's.
// https://istio.io/latest/docs/reference/config/labels/
func unmeshed(labels map[string]string) metav1.ObjectMeta {
	labels["sidecar.istio.io/inject"], labels["istio.io/dataplane-mode"] = "false", "none"
	return metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"linkerd.io/inject": "disabled"}}
}

func (id identity) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: id.name, Namespace: id.namespace, Labels: id.labels()}
}

// metaIn returns the metadata of an object in another namespace than the run's. A label names the run's namespace.
func (id identity) metaIn(namespace string) metav1.ObjectMeta {
	all := id.labels()
	all[NamespaceLabel] = id.namespace
	return metav1.ObjectMeta{Name: id.name, Namespace: namespace, Labels: all}
}

func (id identity) clusterMeta() metav1.ObjectMeta {
	all := id.labels()
	if id.namespace != "" {
		all[NamespaceLabel] = id.namespace
	}
	return metav1.ObjectMeta{Name: clusterName(id.name), Labels: all}
}

const rbacV1 = "rbac.authorization.k8s.io/v1"

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}
