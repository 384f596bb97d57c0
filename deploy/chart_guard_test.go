package deploy

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/deploy/agent"
)

// guardStandIns are the values of [chartGuard], and what the chart has instead.
var guardStandIns = []expression{
	{standIn: "7877m", text: `$.Values.guard.cpu`},
	{standIn: "stand-in-flags\n", text: `join "\n" (append $.Values.guard.flags "")`},
	{standIn: "stand-in-token", text: `$.Values.guard.tokenSecret`},
	{standIn: "stand-in-store-secret", text: `$.Values.guard.store.secret`},
	{standIn: "stand-in-store-endpoint", text: `$.Values.guard.store.endpoint`},
	{standIn: "stand-in-store-url", text: `$.Values.guard.store.url`},
	{standIn: "stand-in-annotations", text: `toYaml $.Values.guard.serviceAccount.annotations`, lines: true},
	{standIn: "stand-in-placement", text: "toYaml (" + guardPlacement + ")", lines: true},
	{standIn: "stand-in-selector", text: "toYaml (" + guardSelector + ")", lines: true},
	{standIn: "stand-in-claim", text: `$.Values.guard.persistence.existingClaim | default "` + GuardName + `"`},
	{standIn: "7919Gi", text: `$.Values.guard.persistence.size`},
	{standIn: "stand-in-class", text: `$.Values.guard.persistence.storageClass`},
	{standIn: "stand-in-peers", text: `toYaml $.Values.guard.networkPolicy.from`, in: "from", lines: true},
	{standIn: "stand-in-monitor-labels", text: `toYaml $.Values.guard.serviceMonitor.labels`, lines: true},
	{standIn: "stand-in-rule-labels", text: `toYaml $.Values.guard.prometheusRule.labels`, lines: true},
	{standIn: "stand-in-board-labels", text: `toYaml $.Values.guard.dashboard.labels`, lines: true},
	{standIn: "stand-in-rules", text: `$.Files.Get "guard/rules.yaml"`, lines: true},
	{standIn: "stand-in-guard-node", text: `.`, each: `$.Values.guard.from.nodes`, in: "nodeSelectorTerms"},
	{
		standIn: "stand-in-guard-label", text: `$label`,
		each: `$label, $value := $.Values.guard.from.labels`, in: "matchExpressions",
	},
	{standIn: "stand-in-dashboard", text: `$.Files.Get "guard/dashboard.json"`},
}

// chartGuard is the guard that the chart describes, without what only some values ask for.
func chartGuard() Guard {
	return Guard{
		Namespace: "stand-in-ns",
		Image:     "stand-in-image",
		CPU:       "7877m",
		Flags:     []string{"stand-in-flags"},
	}
}

const guardClaimed = `or $.Values.guard.persistence.existingClaim $.Values.guard.persistence.size`

// guardParts are what values add to the objects of a guard.
var guardParts = []struct {
	when       string
	over, with func(*Guard)
}{
	{when: `$.Values.imagePullSecrets`, with: func(g *Guard) { g.ImagePullSecret = "stand-in-pull" }},
	{when: guardPlacement, with: func(g *Guard) { g.Placement.PriorityClassName = "stand-in-placement" }},
	{when: guardSelector, with: func(g *Guard) {
		g.Placement.NodeSelector = map[string]string{"selector": "stand-in-selector"}
	}},
	{when: `$.Values.guard.tokenSecret`, with: func(g *Guard) { g.TokenSecret = "stand-in-token" }},
	{when: `$.Values.guard.store.url`, with: func(g *Guard) { g.Store = "stand-in-store-url" }},
	{when: `$.Values.guard.store.endpoint`, with: func(g *Guard) { g.StoreEndpoint = "stand-in-store-endpoint" }},
	{when: `$.Values.guard.store.secret`, with: func(g *Guard) { g.StoreSecret = "stand-in-store-secret" }},
	{
		when: `$.Values.guard.serviceAccount.annotations`,
		with: func(g *Guard) { g.Annotations = map[string]string{"annotations": "stand-in-annotations"} },
	},
	{when: guardFrom, with: everywhere},
	{when: guardFrom + `.nodes`, over: everywhere, with: func(g *Guard) {
		g.ProberLabels, g.Probers = nil, []string{"stand-in-guard-node"}
	}},
	{when: guardFrom + `.labels`, over: everywhere, with: func(g *Guard) {
		g.ProberLabels = labels.SelectorFromSet(labels.Set{"stand-in-guard-label": "stand-in-value"})
	}},
	{when: `$.Values.guard.allNamespaces`, with: func(g *Guard) { g.AllNamespaces = true }},
}

const (
	guardFrom      = `$.Values.guard.from`
	guardPlacement = `omit $.Values.guard.placement "nodeSelector"`
	guardSelector  = `omit ($.Values.guard.placement.nodeSelector | default dict) "kubernetes.io/os"`
)

// everywhere adds probers to a guard.
func everywhere(g *Guard) { g.ProberLabels = labels.Everything() }

// guarded returns the template of an object that a guard has, by its kind and name.
func guarded(file, when string, g Guard, kind, name string) template {
	object := func(g Guard) runtime.Object {
		for _, o := range g.Objects() {
			if o.GetObjectKind().GroupVersionKind().Kind == kind && o.(metav1.Object).GetName() == name {
				return o
			}
		}
		return nil
	}
	t := template{file: "guard/" + file, when: both(`$.Values.guard.enabled`, when), object: object(g)}
	for _, p := range guardParts {
		without := g
		if p.over != nil {
			p.over(&without)
		}
		with := without
		p.with(&with)
		if o := object(with); o != nil && !reflect.DeepEqual(o, object(without)) {
			t.parts = append(t.parts, part{p.when, o})
		}
	}
	return t
}

// besides returns the template of an object that a guard of the chart has, and one of `lapse gen guard` has not.
func besides(file, when string, object runtime.Object) template {
	return template{file: "guard/" + file, when: both(`$.Values.guard.enabled`, when), object: object}
}

// labelledFor returns such a template for an object that others find by labels, which a value adds.
func labelledFor(file, value string, object runtime.Object, labels string) template {
	t := besides(file, `$.Values.guard.`+value+`.enabled`, object)
	more := object.DeepCopyObject()
	all := guardLabels()
	all["labels"] = labels
	more.(metav1.Object).SetLabels(all)
	t.parts = []part{{`$.Values.guard.` + value + `.labels`, more}}
	return t
}

func guardTemplates() []template {
	two, one, all, fleet := chartGuard(), chartGuard(), chartGuard(), chartGuard()
	one.Claim, all.AllNamespaces = "stand-in-claim", true
	everywhere(&fleet)
	const anywhere, here = `$.Values.guard.allNamespaces`, `not $.Values.guard.allNamespaces`
	const shared, unshared = guardClaimed, `not (` + guardClaimed + `)`
	return []template{
		guarded("serviceaccount", "", two, "ServiceAccount", GuardName),
		guarded("clusterrole", anywhere, all, "ClusterRole", all.clusterMeta().Name),
		guarded("clusterrolebinding", anywhere, all, "ClusterRoleBinding", all.clusterMeta().Name),
		guarded("role", here, two, "Role", GuardName),
		guarded("rolebinding", here, two, "RoleBinding", GuardName),
		guarded("lease-role", unshared, two, "Role", GuardName+"-lease"),
		guarded("lease-rolebinding", unshared, two, "RoleBinding", GuardName+"-lease"),
		guarded("poddisruptionbudget", unshared, two, "PodDisruptionBudget", GuardName),
		guarded("configmap", "", two, "ConfigMap", GuardName),
		guarded("history", unshared, two, "ConfigMap", guardHistory),
		guarded("service", "", two, "Service", GuardName),
		guarded("deployment", unshared, two, "Deployment", GuardName),
		guarded("deployment-with-claim", shared, one, "Deployment", GuardName),
		guarded("probers-secret", guardFrom, fleet, "Secret", GuardProbers),
		guarded("probers-role", guardFrom, fleet, "Role", GuardProbers),
		guarded("probers-rolebinding", guardFrom, fleet, "RoleBinding", GuardProbers),
		guarded("probers-daemonset", guardFrom, fleet, "DaemonSet", GuardProbers),
		guardClaim(),
		besides("networkpolicy", `$.Values.guard.networkPolicy.enabled`, guardPolicy()),
		besides("probers-networkpolicy", `and $.Values.guard.networkPolicy.enabled `+guardFrom, proberPolicy()),
		labelledFor("servicemonitor", "serviceMonitor", monitoring("ServiceMonitor", map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{nameLabel: GuardName}}, // Helm changes managedLabel
			// The guard's series name the Service that they are of.
			"endpoints": []any{map[string]any{"port": "http-gate", "honorLabels": true}},
		}), "stand-in-monitor-labels"),
		labelledFor("prometheusrule", "prometheusRule", monitoring("PrometheusRule", map[string]any{
			"groups": "stand-in-rules",
		}), "stand-in-rule-labels"),
		labelledFor("dashboard", "dashboard", guardDashboard(), "stand-in-board-labels"),
	}
}

// guardClaim is the claim for the runs, if values do not name one.
func guardClaim() template {
	claim := func(class *string) runtime.Object {
		return &corev1.PersistentVolumeClaim{
			TypeMeta: typeMeta("v1", "PersistentVolumeClaim"), ObjectMeta: chartGuard().meta(),
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("7919Gi")},
				},
				StorageClassName: class,
			},
		}
	}
	const when = `and $.Values.guard.persistence.size (not $.Values.guard.persistence.existingClaim)`
	t := besides("persistentvolumeclaim", when, claim(nil))
	t.parts = []part{{`$.Values.guard.persistence.storageClass`, claim(new("stand-in-class"))}}
	return t
}

// guardPolicy lets its other Pod, and those whom values name, reach a guard at the port of its gate and metrics, and
// nobody at another one. It may send anything anywhere.
func guardPolicy() runtime.Object {
	gate := []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(GatePort))}}
	own := metav1.LabelSelector{MatchLabels: guardLabels()}
	named := metav1.LabelSelector{MatchLabels: map[string]string{"who": "stand-in-peers"}}
	return &networkingv1.NetworkPolicy{
		TypeMeta: typeMeta("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: chartGuard().meta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: own,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &own}}, Ports: gate},
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &named}}, Ports: gate},
			},
			Egress: []networkingv1.NetworkPolicyEgressRule{{}},
		},
	}
}

// proberPolicy lets the guard reach its probers, and nobody else. They may send anything anywhere.
func proberPolicy() runtime.Object {
	meta := chartGuard().meta()
	meta.Name = GuardProbers
	guard := metav1.LabelSelector{MatchLabels: guardLabels()}
	return &networkingv1.NetworkPolicy{
		TypeMeta: typeMeta("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: meta,
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: guardProberLabels()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &guard}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(agent.ProberPort))}},
			}},
			Egress: []networkingv1.NetworkPolicyEgressRule{{}},
		},
	}
}

// monitoring returns an object of the Prometheus operator.
func monitoring(kind string, spec map[string]any) runtime.Object {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "spec": spec,
	}}
	meta := chartGuard().meta()
	object.SetName(meta.Name)
	object.SetNamespace(meta.Namespace)
	object.SetLabels(meta.Labels)
	return object
}

// guardDashboard is a ConfigMap that Grafana's sidecar finds by a label.
func guardDashboard() runtime.Object {
	meta := chartGuard().meta()
	meta.Name += "-dashboard"
	return &corev1.ConfigMap{
		TypeMeta: typeMeta("v1", "ConfigMap"), ObjectMeta: meta,
		Data: map[string]string{GuardName + ".json": "stand-in-dashboard"},
	}
}
