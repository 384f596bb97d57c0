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

// podMeta returns the labels and annotations of a Pod. They keep service meshes from adding a proxy, which would retry
// failed requests, outlive the agent and bring an emptyDir.
func (id identity) podMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Labels:      id.podLabels(),
		Annotations: map[string]string{"linkerd.io/inject": "disabled"},
	}
}

func (id identity) podLabels() map[string]string {
	all := id.labels()
	all["sidecar.istio.io/inject"] = "false"
	return all
}

func (id identity) proberLabels() map[string]string {
	all := id.podLabels()
	all[PartLabel] = ProberPart
	return all
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
