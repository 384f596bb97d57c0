package watcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/timeline"
)

func deployment(name, app string, replicas int) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: "big"}},
		},
		Status: appsv1.DeploymentStatus{Replicas: int32(replicas), ReadyReplicas: int32(replicas), AvailableReplicas: int32(replicas)},
	}
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
}

// snapshotted are the snapshots among what happened, without their instants.
func (c *cluster) snapshotted() []string {
	var all []string
	for _, line := range c.happened() {
		if _, rest, is := strings.Cut(line, " snapshot "); is {
			all = append(all, rest)
		}
	}
	slices.Sort(all)
	return all
}

func (c *cluster) wantSnapshots(want ...string) {
	c.t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, c.snapshotted()); diff != "" {
		c.t.Errorf("snapshots (-want +got):\n%s", diff)
	}
}

func TestWhatMakesAndGuardsOurPodsIsRecordedOnceAndAtEachChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pdb := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "guard", UID: "guard"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2, DisruptionsAllowed: 1},
		}
		foreign := with(pdb.DeepCopy(), func(b *policyv1.PodDisruptionBudget) {
			b.Name, b.UID, b.Spec.Selector.MatchLabels["app"] = "foreign", "foreign", "db"
		})
		web := deployment("web", "web", 2)
		c := newCluster(t, service(), with(pod(1), ownedBy("ReplicaSet", "web-abc")), with(pod(2), ownedBy("ReplicaSet", "web-abc")), web, deployment("db", "db", 1), pdb, foreign)
		c.all = true
		c.start()
		defer c.end()
		c.wantSnapshots(
			"web >found", "web-abc >found (Pod template)", "web >found (2 of 2 ready)",
			"guard >found (2 of 2 Pods are healthy, 1 must be: 1 may be evicted)")

		web = with(web.DeepCopy(), func(d *appsv1.Deployment) { d.Generation, d.Spec.Replicas = 2, new(int32(0)) })
		if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), web, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >changed (replicas: 2 → 0)")

		web = with(web.DeepCopy(), func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{TerminatingReplicas: new(int32(2))} })
		if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), web, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >status (0 of 0 ready, 2 terminating)")

		web = with(web.DeepCopy(), func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} })
		if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), web, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots()

		web = with(web.DeepCopy(), func(d *appsv1.Deployment) { d.Generation = 3 })
		if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), web, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >changed (its Pod template, or another part of its spec)")

		if err := c.client.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource("deployments"), "shop", "web"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >deleted (0 of 0 ready, 2 terminating)")
	})
}

// A DaemonSet wants as many Pods as it has nodes: only a change of its spec is one.
func TestADaemonSetIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		web := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1},
			Spec: appsv1.DaemonSetSpec{
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))}},
				Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
			},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2},
		}
		c := newCluster(t, service(), with(pod(1), ownedBy("DaemonSet", "web")), web)
		c.all = true
		c.start()
		defer c.end()
		c.wantSnapshots("web >found", "web >found (Pod template)", "web >found (2 of 2 ready)")
		for _, change := range []struct {
			of   func(*appsv1.DaemonSet)
			want string
		}{
			{func(d *appsv1.DaemonSet) { d.Status.DesiredNumberScheduled = 3 }, "web >status (2 of 3 ready)"},
			{func(d *appsv1.DaemonSet) { d.Generation = 2 }, "web >changed (its Pod template, or another part of its spec)"},
			{func(d *appsv1.DaemonSet) { d.Status.ObservedGeneration = 2 }, "web >status (2 of 3 ready)"},
		} {
			web = with(web.DeepCopy(), change.of)
			if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("daemonsets"), web, "shop"); err != nil {
				t.Fatal(err)
			}
			c.wantSnapshots(change.want)
		}
	})
}

// Whose Pods a Service selects later becomes ours then.
func TestWorkloadsOfTheNextSelectorAreFoundWhenItComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), deployment("blue", "web", 1), deployment("green", "green", 1))
		c.all = true
		c.start()
		defer c.end()
		c.wantSnapshots("web >found", "web-1 >found (Pod template)", "blue >found (1 of 1 ready)")
		switched := with(service(), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "green"} })
		if err := c.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), switched, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >changed (its spec)", "green >found (1 of 1 ready)")
	})
}

func TestAMissingRightCostsThatLaneOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), deployment("web", "web", 1))
		c.all = true
		for _, resource := range []string{"replicasets", "poddisruptionbudgets"} {
			c.refuse("list "+resource, forbidden(resource))
		}
		c.start()
		defer c.end()
		var off []string
		for _, line := range c.happened() {
			if strings.Contains(line, "watch-lane") && strings.Contains(line, ">off") {
				off = append(off, line)
			}
		}
		slices.Sort(off)
		if len(off) != 2 || !strings.Contains(off[0], "[PodDisruptionBudget]") || !strings.Contains(off[0], "no right to list poddisruptionbudgets.policy") || !strings.Contains(off[1], "[ReplicaSet]") {
			t.Errorf("lanes off: %q", off)
		}
		more := with(deployment("web", "web", 3), func(d *appsv1.Deployment) { d.Generation = 2 })
		if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), more, "shop"); err != nil {
			t.Fatal(err)
		}
		c.wantSnapshots("web >changed (replicas: 1 → 3)")
	})
}

func TestWhoEndsAPodIsSeen(t *testing.T) {
	evicted := with(pod(1), func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", LastTransitionTime: at(9)})
	})
	checkLines(t, diffPod(pod(1), with(evicted, deleted), watched, ourSelector),
		"pod-disrupted web-1 on=node1 addr=10.0.0.1 >EvictionByEvictionAPI stamp=09 (Eviction API: evicting)",
		"pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10")
	checkLines(t, diffPod(evicted, evicted, watched, ourSelector))
}

func TestTaintsComeAndGo(t *testing.T) {
	tainted := func(keys ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "node1"}}
		for _, key := range keys {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
		}
		return n
	}
	checkLines(t, diffPresent(timeline.NodeTaint, nil, tainted("a"), taints), "node-taint node1 >present (a:NoExecute)")
	checkLines(t, diffPresent(timeline.NodeTaint, tainted("a"), tainted("b", "node.kubernetes.io/unschedulable"), taints),
		"node-taint node1 present>absent (a:NoExecute)", "node-taint node1 absent>present (b:NoExecute)")
}
