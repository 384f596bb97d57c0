package deploy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c Config) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "lapse", managedLabel: "lapse", RunLabel: c.Name}
}

// podMeta returns the labels and annotations of a Pod. They keep service meshes from adding a proxy, which would retry
// failed requests, outlive the agent and bring an emptyDir.
func (c Config) podMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Labels:      c.podLabels(),
		Annotations: map[string]string{"linkerd.io/inject": "disabled"},
	}
}

func (c Config) podLabels() map[string]string {
	all := c.labels()
	all["sidecar.istio.io/inject"] = "false"
	return all
}

func (c Config) proberLabels() map[string]string {
	all := c.podLabels()
	all[PartLabel] = ProberPart
	return all
}

func (c Config) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, Labels: c.labels()}
}

// metaIn returns the metadata of an object in another namespace than the run's. A label names the run's namespace.
func (c Config) metaIn(namespace string) metav1.ObjectMeta {
	all := c.labels()
	all[NamespaceLabel] = c.Namespace
	return metav1.ObjectMeta{Name: c.Name, Namespace: namespace, Labels: all}
}

func (c Config) clusterMeta() metav1.ObjectMeta {
	all := c.labels()
	if c.Namespace != "" {
		all[NamespaceLabel] = c.Namespace
	}
	return metav1.ObjectMeta{Name: clusterName(c.Name), Labels: all}
}

const rbacV1 = "rbac.authorization.k8s.io/v1"

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}
