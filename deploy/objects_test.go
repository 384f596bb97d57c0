package deploy

import (
	"bytes"
	"flag"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lapse/internal/hint"
)

var update = flag.Bool("update", false, "rewrite the generated files")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

func exampleConfig() Config {
	return Config{Name: "lapse-x7k2p", Namespace: "shop", Image: "registry.example.com/lapse:v1", Args: []string{"run", "svc/web"}}
}

func podSpec(c Config) corev1.PodSpec { return c.Objects().Job.Spec.Template.Spec }

func TestKustomizeFilesAreRenderedFromTheGoValues(t *testing.T) {
	files, err := kustomizeFiles()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		path = filepath.Join("kustomize", path)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale; run go generate ./deploy\n%s", path, diff)
		}
	}
}

func TestKustomizationsListEveryFileBesideThem(t *testing.T) {
	for _, folder := range []string{"base", "with-nodes", "fleet", "guard", "guard-namespace", "example"} {
		text, err := os.ReadFile(filepath.Join("kustomize", folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var kustomization struct{ Resources []string }
		if err := yaml.Unmarshal(text, &kustomization); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join("kustomize", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if entry.Name() != "kustomization.yaml" && !slices.Contains(kustomization.Resources, entry.Name()) {
				t.Errorf("%s/kustomization.yaml does not list %s", folder, entry.Name())
			}
		}
		for _, resource := range kustomization.Resources {
			if _, err := os.Stat(filepath.Join("kustomize", folder, resource)); err != nil {
				t.Errorf("%s/kustomization.yaml: %v", folder, err)
			}
		}
	}
}

func TestYAMLReadsBackAsTheSameObjects(t *testing.T) {
	config := exampleConfig()
	config.NodesAccess = true
	config.AvoidNodes, config.SpareNodes = []string{"node-a"}, []string{"node-b", "node-c"}
	objects := config.Objects()
	var stream bytes.Buffer
	if err := WriteYAML(&stream, objects.All()...); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(stream.String(), "---\n")
	into := []runtime.Object{
		new(corev1.ServiceAccount), new(rbacv1.Role), new(rbacv1.RoleBinding),
		new(rbacv1.ClusterRole), new(rbacv1.ClusterRoleBinding), new(batchv1.Job),
	}
	if len(documents) != len(into) {
		t.Fatalf("got %d documents, want %d:\n%s", len(documents), len(into), &stream)
	}
	for i, document := range documents {
		if err := yaml.UnmarshalStrict([]byte(document), into[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(objects.All(), into); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(stream.String(), "status:") || strings.Contains(stream.String(), "null") {
		t.Errorf("YAML contains what only the API server knows:\n%s", &stream)
	}
}

// The agent's API and page are for who may create pods/portforward: nothing else reaches a loopback address.
func TestTheAgentIsReachedByPortForwardOnly(t *testing.T) {
	for _, variable := range podSpec(exampleConfig()).Containers[0].Env {
		if variable.Name != EnvListen {
			continue
		}
		host, _, err := net.SplitHostPort(variable.Value)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			t.Errorf("it listens on %s", variable.Value)
		}
		return
	}
	t.Error("where it listens is not said")
}

// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func TestPodKeepsToTheRestrictedStandard(t *testing.T) {
	probers := fleetConfig().Objects().Probers.Spec.Template.Spec
	ofGuard := guardFleet().set.Spec.Template.Spec
	for _, spec := range []corev1.PodSpec{podSpec(exampleConfig()), probers, ofGuard, Guard{TokenSecret: "token", Claim: "runs"}.pod()} {
		onHost := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
		if onHost || spec.HostNetwork || spec.HostPID || spec.HostIPC {
			t.Error("the Pod has volumes or namespaces of the host")
		}
		pod, container := spec.SecurityContext, spec.Containers[0].SecurityContext
		if !*pod.RunAsNonRoot || *pod.RunAsUser == 0 || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("Pod security context %v", pod)
		}
		if *container.AllowPrivilegeEscalation || *container.Privileged ||
			!slices.Equal(container.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(container.Capabilities.Add) > 0 {
			t.Errorf("container security context %v", container)
		}
	}
}

func TestPodDoesNotStandInTheWayOfADrain(t *testing.T) {
	spec := podSpec(exampleConfig())
	if len(spec.Volumes) > 0 {
		t.Error("an emptyDir makes kubectl drain refuse")
	}
	if len(spec.Tolerations) > 0 {
		t.Error("a toleration keeps the Pod where no other Pod may be")
	}
	if spec.Affinity != nil {
		t.Error("without nodes to avoid there is nothing to say about placement")
	}
}

// The scale-down that is to be measured must not leave out the agent's node.
func TestPodDoesNotStandInTheWayOfAnAutoscaler(t *testing.T) {
	annotations := exampleConfig().Objects().Job.Spec.Template.Annotations
	for _, name := range []string{"cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict"} {
		if value, set := annotations[name]; set {
			t.Errorf("%s: %s", name, value)
		}
	}
}

func TestNoCPULimitBecauseThrottlingFakesLatency(t *testing.T) {
	resources := podSpec(exampleConfig()).Containers[0].Resources
	if _, limited := resources.Limits[corev1.ResourceCPU]; limited {
		t.Error("CPU is limited")
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if _, requested := resources.Requests[name]; !requested {
			t.Errorf("%s is not requested", name)
		}
	}
	if _, limited := resources.Limits[corev1.ResourceMemory]; !limited {
		t.Error("memory is not limited")
	}
}

func TestTheCPUThatIsAskedForCanBeChosen(t *testing.T) {
	for text, want := range map[string]string{"": DefaultCPU, "500m": "500m", "1.5": "1500m"} {
		config := exampleConfig()
		config.CPU = text
		if err := config.Validate(); err != nil {
			t.Error(err)
		}
		if got := podSpec(config).Containers[0].Resources.Requests[corev1.ResourceCPU]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("asked for %q: %v, want %s", text, got.String(), want)
		}
	}
	for _, text := range []string{"0", "-1", "half", "500", "1Gi", "10%"} {
		config := exampleConfig()
		config.CPU = text
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "from 1m to 64 cores") {
			t.Errorf("asked for %q: %v", text, err)
		}
	}
}

func TestNodesWithoutStorageAccountingGetNoStorageRequest(t *testing.T) {
	config := exampleConfig()
	config.NoStorageRequest = true
	if _, requested := podSpec(config).Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage]; requested {
		t.Error("ephemeral storage is requested; no such node could take the Pod")
	}
}

func TestRunEndsWithItsPod(t *testing.T) {
	job := Config{Name: "lapse-a", Image: "lapse", Deadline: 90*time.Minute + time.Millisecond}.Objects().Job.Spec
	if *job.BackoffLimit != 0 || *job.PodReplacementPolicy != batchv1.Failed || job.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("a second Pod could start: %v", job)
	}
	if *job.ActiveDeadlineSeconds != 90*60+1 {
		t.Errorf("deadline is %d s", *job.ActiveDeadlineSeconds)
	}
	if *job.TTLSecondsAfterFinished < 60 || *job.Template.Spec.TerminationGracePeriodSeconds < 30 {
		t.Error("no time to write or to read a result")
	}
}

func TestAgentMayOnlyRead(t *testing.T) {
	config := exampleConfig()
	config.NodesAccess = true
	objects := config.Objects()
	for _, rule := range slices.Concat(objects.Role.Rules, objects.ClusterRole.Rules) {
		if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) || slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
			t.Errorf("rule %v", rule)
		}
	}
}

func TestWithoutNodesAccessNothingIsClusterWide(t *testing.T) {
	objects := exampleConfig().Objects()
	if objects.ClusterRole != nil || objects.ClusterRoleBinding != nil || len(objects.All()) != 4 {
		t.Errorf("objects %v", objects.All())
	}
}

func TestAvoidedNodesAreForbiddenAndTheServicesNodesDisliked(t *testing.T) {
	config := exampleConfig()
	config.AvoidNodes, config.SpareNodes = []string{"node-a", "node-b"}, []string{"node-c"}
	affinity := podSpec(config).Affinity
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: "NotIn", Values: []string{"node-a"}}, // both must hold,
				{Key: "metadata.name", Operator: "NotIn", Values: []string{"node-b"}}, // in one term
			},
		}}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: "NotIn", Values: []string{"node-c"}},
			}},
		}},
	}}
	if diff := cmp.Diff(want, affinity); diff != "" {
		t.Error(diff)
	}
}

func TestAgentMustNotBecomeAnEndpointOfWhatItMeasures(t *testing.T) {
	config := exampleConfig()
	config.Selectors = []map[string]string{{"app": "web"}, nil}
	if err := config.Validate(); err != nil {
		t.Errorf("selector of another workload: %v", err)
	}
	config.Selectors = append(config.Selectors, map[string]string{"app.kubernetes.io/name": "lapse"})
	wantHint(t, config.Validate(), "selector")
}

func TestNamesThatKubernetesWouldRefuseAreRefusedFirst(t *testing.T) {
	for _, name := range []string{"", "Lapse", "lapse_1", strings.Repeat("a", 58)} {
		config := exampleConfig()
		config.Name = name
		if config.Validate() == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
	if err := (Config{Name: "lapse-20261121-165213-a2b3", Image: "lapse"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestNodesThatCannotBeAreRefusedFirst(t *testing.T) {
	for _, node := range []string{"Node_1!", "node1,node3", ""} {
		config := exampleConfig()
		config.AvoidNodes = []string{"node2", node}
		wantHint(t, config.Validate(), "--avoid-node node1,node3")
	}
	config := exampleConfig()
	config.AvoidNodes = []string{"ip-10-0-0-7.eu-west-1.compute.internal"}
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

// What must not be read stands in no argument and no environment, only in Secrets.
func TestWhatIsPrivateStandsInASecretOnly(t *testing.T) {
	config := exampleConfig()
	config.Private = []byte(`{"headers":["Authorization: Bearer s3cret"]}`)
	config.HeadersFrom, config.EchoFrom = []string{"web-auth", "trace"}, "redis"
	objects := config.Objects()
	if got := string(objects.Secret.Data[privateKey]); got != string(config.Private) || objects.Secret.Name != config.Name {
		t.Errorf("Secret %s holds %q", objects.Secret.Name, got)
	}
	objects.Secret = nil
	var others bytes.Buffer
	if err := WriteYAML(&others, objects.All()...); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(others.String(), "s3cret") {
		t.Errorf("the other objects hold it too:\n%s", &others)
	}
	container := podSpec(config).Containers[0]
	sources := map[string]string{}
	for _, env := range container.Env {
		if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
			sources[env.Name] = env.ValueFrom.SecretKeyRef.Name + "/" + env.ValueFrom.SecretKeyRef.Key
		}
	}
	for _, from := range container.EnvFrom {
		sources[from.Prefix] = from.SecretRef.Name
	}
	want := map[string]string{"LAPSE_PRIVATE": config.Name + "/flags", "LAPSE_ECHO": "redis/echo", "LAPSE_HEADER_0_": "web-auth", "LAPSE_HEADER_1_": "trace"}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Error(diff)
	}
	if exampleConfig().Objects().Secret != nil {
		t.Error("a run that has nothing to hide makes a Secret")
	}
}

// wantHint checks that err is there and tells people what to do about it.
func wantHint(t *testing.T, err error, contains string) {
	t.Helper()
	if err == nil {
		t.Error("got no error")
		return
	}
	if advice := hint.Of(err); advice == "" || !strings.Contains(advice+err.Error(), contains) {
		t.Errorf("%q, hint %q: neither says %q", err, advice, contains)
	}
}

// lapsePods returns the templates of all Pods that runs and guards have.
func lapsePods() map[string]corev1.PodTemplateSpec {
	config := exampleConfig()
	config.ProberLabels, config.CanaryPods = labels.Everything(), 2
	objects := config.Objects()
	return map[string]corev1.PodTemplateSpec{
		"agent":          objects.Job.Spec.Template,
		"prober":         objects.Probers.Spec.Template,
		"canary":         objects.Canary.Spec.Template,
		"guard":          guardFleet().deployment().Spec.Template,
		"guard's prober": guardFleet().set.Spec.Template,
	}
}

// A proxy would retry failed requests. Istio's ambient mode has one on each node.
func TestNoMeshIsBetweenLapseAndWhatItMeasures(t *testing.T) {
	for name, pod := range lapsePods() {
		labels, annotations := pod.Labels, pod.Annotations
		if labels["sidecar.istio.io/inject"] != "false" || labels["istio.io/dataplane-mode"] != "none" || annotations["linkerd.io/inject"] != "disabled" {
			t.Errorf("%s: labels %v, annotations %v", name, labels, annotations)
		}
	}
}

// Windows runs no Lapse, and neither Fargate nor a virtual kubelet a DaemonSet, whose Pods tolerate every taint. Nodes
// that are named are named knowingly.
func TestPodsRunOnLinuxNodesAndProbersOnRealOnes(t *testing.T) {
	for name, pod := range lapsePods() {
		if os := pod.Spec.NodeSelector["kubernetes.io/os"]; os != "linux" {
			t.Errorf("%s: on nodes with %q", name, os)
		}
	}
	placed := Guard{Placement: Placement{NodeSelector: map[string]string{"pool": "ops"}}}
	if diff := cmp.Diff(map[string]string{"kubernetes.io/os": "linux", "pool": "ops"}, placed.pod().NodeSelector); diff != "" {
		t.Error(diff)
	}
	if len(placed.Placement.NodeSelector) != 1 {
		t.Errorf("what was chosen became %v", placed.Placement.NodeSelector)
	}
	node := func(label, value string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "web", label: value}}}
	}
	for _, test := range []struct {
		node corev1.Node
		want bool
	}{
		{node("kubernetes.io/os", "linux"), true},
		{node("kubernetes.io/os", "windows"), false},
		{node("eks.amazonaws.com/compute-type", "ec2"), true},
		{node("eks.amazonaws.com/compute-type", "fargate"), false},
		{node("type", "virtual-kubelet"), false},
		{node("type", "large"), true},
	} {
		if got := CanProbe(&test.node); got != test.want {
			t.Errorf("a node with %v: %v", test.node.Labels, got)
		}
	}
}

// A quota on what Pods ask for refuses one that does not say it.
func TestEveryPodSaysWhatAQuotaCounts(t *testing.T) {
	for name, pod := range lapsePods() {
		for _, c := range pod.Spec.Containers {
			requests, limits := c.Resources.Requests, c.Resources.Limits
			if requests.Cpu().IsZero() || requests.Memory().IsZero() || limits.Memory().IsZero() || !limits.Cpu().IsZero() {
				t.Errorf("%s: requests %v, limits %v", name, requests, limits)
			}
		}
	}
}

// rulesOf returns the rules of a Role or a ClusterRole; nil: o is neither.
func rulesOf(o runtime.Object) []rbacv1.PolicyRule {
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		return o.Rules
	case *rbacv1.Role:
		return o.Rules
	}
	return nil
}

// A guard of all namespaces may read the mode of kube-proxy, on EKS too, and no other ConfigMap outside of its own namespace. That is
// granted in the ClusterRole: GKE Autopilot lets nobody create a Role in kube-system.
func TestAGuardOfAllNamespacesMayReadTheProxysMode(t *testing.T) {
	want := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}, ResourceNames: []string{"kube-proxy", "kube-proxy-config"}}
	for _, all := range []bool{true, false} {
		var got []rbacv1.PolicyRule
		for _, o := range (Guard{Namespace: "lapse", AllNamespaces: all, Claim: "runs"}).Objects() {
			for _, rule := range rulesOf(o) {
				if slices.Contains(rule.Resources, "configmaps") {
					got = append(got, rule)
				}
			}
		}
		if all != (len(got) == 1 && cmp.Equal(got[0], want)) || !all && len(got) > 0 {
			t.Errorf("all namespaces %v: %v", all, got)
		}
	}
}

// A guard whose Pods crash, as with a wrong key of its bucket, holds up no drain.
func TestAGuardThatCrashesHoldsUpNoDrain(t *testing.T) {
	for _, o := range (Guard{Namespace: "lapse"}).Objects() {
		if budget, ok := o.(*policyv1.PodDisruptionBudget); ok {
			if p := budget.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
				t.Errorf("Pods that are not ready are not evicted: %+v", budget.Spec)
			}
			return
		}
	}
	t.Error("no budget")
}

// A guard may read what it measures and write Events. In its own namespace it may make a Lease, and change its own
// and the ConfigMap of its history.
func TestAGuardMayReadAndWriteEvents(t *testing.T) {
	for _, g := range []Guard{{Namespace: "lapse"}, {Namespace: "lapse", AllNamespaces: true}, {Namespace: "lapse", AllNamespaces: true, Claim: "runs"}, {Namespace: "lapse", Claim: "runs", Probers: []string{"node1"}}} {
		for _, o := range g.Objects() {
			for _, rule := range rulesOf(o) {
				of := strings.Join(rule.Resources, ",") + " " + strings.Join(rule.ResourceNames, ",")
				reads := !slices.ContainsFunc(rule.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
				writes := slices.Contains([]string{"events  create", "leases  create", "leases lapse-guard get patch", "configmaps lapse-guard-history get patch", "secrets lapse-guard-probers get patch"}, of+" "+strings.Join(rule.Verbs, " "))
				if !reads && !writes || reads && strings.Contains(of, "secrets") || strings.Contains(of, "*") {
					t.Errorf("%+v: rule %v", g, rule)
				}
			}
		}
		for _, o := range g.Objects() {
			if d, ok := o.(*appsv1.Deployment); ok && strings.Contains(strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "), "status-listen") {
				t.Error("its status is served at another address than 127.0.0.1")
			}
		}
	}
}
