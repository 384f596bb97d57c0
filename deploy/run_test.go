package deploy

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
)

// fakeCluster is a cluster whose API server gives UIDs.
func fakeCluster(objects ...runtime.Object) (Cluster, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "jobs", func(action ktesting.Action) (bool, runtime.Object, error) {
		action.(ktesting.CreateAction).GetObject().(*batchv1.Job).UID = "job-1"
		return false, nil, nil
	})
	client.PrependReactor("create", "clusterroles", func(action ktesting.Action) (bool, runtime.Object, error) {
		action.(ktesting.CreateAction).GetObject().(*rbacv1.ClusterRole).UID = "role-1"
		return false, nil, nil
	})
	return Cluster{Client: kubetest.Client(client)}, client
}

func mustCreate(t *testing.T, cluster Cluster) *Run {
	t.Helper()
	config := exampleConfig()
	config.NodesAccess = true
	run, err := Create(t.Context(), cluster, config)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// leftovers lists what there is of runs.
func leftovers(t *testing.T, cluster Cluster) []string {
	t.Helper()
	var names []string
	all := metav1.ListOptions{}
	jobs, err1 := cluster.Client.Jobs("").List(t.Context(), all)
	accounts, err2 := cluster.Client.ServiceAccounts("").List(t.Context(), all)
	roles, err3 := cluster.Client.Roles("").List(t.Context(), all)
	bindings, err4 := cluster.Client.RoleBindings("").List(t.Context(), all)
	clusterRoles, err5 := cluster.Client.ClusterRoles().List(t.Context(), all)
	clusterBindings, err6 := cluster.Client.ClusterRoleBindings().List(t.Context(), all)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	for _, o := range jobs.Items {
		names = append(names, "Job "+o.Name)
	}
	for _, o := range accounts.Items {
		names = append(names, "ServiceAccount "+o.Name)
	}
	for _, o := range roles.Items {
		names = append(names, "Role "+o.Name)
	}
	for _, o := range bindings.Items {
		names = append(names, "RoleBinding "+o.Name)
	}
	for _, o := range clusterRoles.Items {
		names = append(names, "ClusterRole "+o.Name)
	}
	for _, o := range clusterBindings.Items {
		names = append(names, "ClusterRoleBinding "+o.Name)
	}
	return names
}

// Whoever deletes the Job, or its time to live, deletes the rest of the run: also where the workstation has crashed,
// at whatever moment, or may not patch anything but Jobs.
func TestWhatIsCreatedBelongsToTheJobFromTheStart(t *testing.T) {
	cluster, client := fakeCluster()
	config := exampleConfig()
	config.NodesAccess, config.Private = true, []byte("{}")
	run, err := Create(t.Context(), cluster, config)
	if err != nil {
		t.Fatal(err)
	}
	byJob := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "lapse-x7k2p", UID: "job-1"}}
	byRole := []metav1.OwnerReference{{APIVersion: rbacV1, Kind: "ClusterRole", Name: "lapse-x7k2p-nodes", UID: "role-1"}}
	owners := map[string][]metav1.OwnerReference{
		"jobs": nil, "secrets": byJob, "serviceaccounts": byJob, "roles": byJob, "rolebindings": byJob, "clusterroles": nil, "clusterrolebindings": byRole,
	}
	var order []string
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			order = append(order, "begin "+action.GetResource().Resource)
		}
		create, ok := action.(ktesting.CreateAction)
		if !ok {
			continue
		}
		order = append(order, action.GetResource().Resource)
		object := create.GetObject().(metav1.Object)
		if diff := gocmp.Diff(owners[action.GetResource().Resource], object.GetOwnerReferences()); diff != "" {
			t.Errorf("owners of the %s %s", action.GetResource().Resource, diff)
		}
		if job, ok := object.(*batchv1.Job); ok && (job.Spec.Suspend == nil || !*job.Spec.Suspend) {
			t.Error("the Job begins before its ServiceAccount is there")
		}
	}
	want := []string{"jobs", "serviceaccounts", "roles", "rolebindings", "secrets", "clusterroles", "clusterrolebindings", "begin jobs"}
	if diff := gocmp.Diff(want, order); diff != "" {
		t.Errorf("created in this order: %s", diff)
	}
	if *run.Job.Spec.Suspend {
		t.Error("the Job does not begin")
	}
}

func forbidden(what string) ktesting.ReactionFunc {
	return func(action ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "lapse-x7k2p", errors.New(what))
	}
}

func TestCreateLeavesNothingBehindWhenItFails(t *testing.T) {
	for _, resource := range []string{"roles", "rolebindings", "clusterrolebindings", "jobs"} {
		cluster, client := fakeCluster()
		client.PrependReactor("create", resource, forbidden("no"))
		config := exampleConfig()
		config.NodesAccess = true
		_, err := Create(t.Context(), cluster, config)
		wantHint(t, err, "kubectl auth can-i create "+resource)
		if got := leftovers(t, cluster); len(got) > 0 {
			t.Errorf("%s refused: %v is left", resource, got)
		}
	}
}

func TestCreateErrorsSayWhatToDo(t *testing.T) {
	group := schema.GroupResource{Resource: "serviceaccounts"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{apierrors.NewAlreadyExists(group, "lapse-x7k2p"), "lapse delete -n shop lapse-x7k2p"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), "namespace"},
		{apierrors.NewForbidden(group, "lapse-x7k2p", errors.New("exceeded quota: small, requested: count/serviceaccounts=1, used: count/serviceaccounts=1, limited: count/serviceaccounts=1")),
			"the quota small leaves no room: the run asks for count/serviceaccounts=1, in use is count/serviceaccounts=1, allowed is count/serviceaccounts=1; see `kubectl describe quota small -n shop`"},
		{apierrors.NewForbidden(group, "lapse-x7k2p", errors.New("RBAC")), "kubectl auth can-i create serviceaccounts -n shop"},
		{terminating(), "the namespace is being deleted"},
	} {
		cluster, client := fakeCluster()
		client.PrependReactor("create", "serviceaccounts", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		_, err := Create(t.Context(), cluster, exampleConfig())
		wantHint(t, err, test.want)
	}
}

// terminating is what the API server answers in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "lapse-x7k2p", errors.New("unable to create new content in namespace shop because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
	return err
}

func TestSecondRunOfANameLeavesTheFirstAlone(t *testing.T) {
	cluster, _ := fakeCluster()
	mustCreate(t, cluster)
	if _, err := Create(t.Context(), cluster, exampleConfig()); err == nil {
		t.Error("created twice")
	}
	if got := leftovers(t, cluster); len(got) != 6 {
		t.Errorf("left %v", got)
	}
}

func TestCreateStaysAwayFromTheServicesPods(t *testing.T) {
	web := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-c"},
	}
	other := web.DeepCopy()
	other.Name, other.Labels, other.Spec.NodeName = "other", nil, "node-d"
	cluster, _ := fakeCluster(web, other)
	config := exampleConfig()
	config.Selectors = []map[string]string{{"app": "web"}}
	run, err := Create(t.Context(), cluster, config)
	if err != nil {
		t.Fatal(err)
	}
	preferred := run.Job.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || len(preferred[0].Preference.MatchFields) != 1 || preferred[0].Preference.MatchFields[0].Values[0] != "node-c" {
		t.Errorf("prefers %v", preferred)
	}
}

func TestStorageIsRequestedWhereNodesCountIt(t *testing.T) {
	counting := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
	}}}
	not := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	for _, test := range []struct {
		nodes []runtime.Object
		want  bool
	}{
		{nil, true}, // unknown
		{[]runtime.Object{not}, false},
		{[]runtime.Object{not, counting}, true},
	} {
		cluster, _ := fakeCluster(test.nodes...)
		run, err := Create(t.Context(), cluster, exampleConfig())
		if err != nil {
			t.Fatal(err)
		}
		_, got := run.Job.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage]
		if got != test.want {
			t.Errorf("%d nodes: requested %v", len(test.nodes), got)
		}
	}
}

func TestDeleteIsCompleteAndCanBeRepeated(t *testing.T) {
	cluster, _ := fakeCluster()
	run := mustCreate(t, cluster)
	for range 2 {
		if err := run.Delete(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := leftovers(t, cluster); len(got) > 0 {
		t.Errorf("left %v", got)
	}
}

func TestDeleteSparesWhatOnlySharesTheName(t *testing.T) {
	stranger := metav1.ObjectMeta{Name: "web", Namespace: "shop"}
	cluster, _ := fakeCluster(&batchv1.Job{ObjectMeta: stranger}, &corev1.ServiceAccount{ObjectMeta: stranger}, &rbacv1.Role{ObjectMeta: stranger})
	if err := (&Run{Cluster: cluster, Namespace: "shop", Name: "web"}).Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if got := leftovers(t, cluster); len(got) != 3 {
		t.Errorf("left %v", got)
	}
}

func TestDeleteDoesWithoutRightsOnTheCluster(t *testing.T) {
	cluster, client := fakeCluster()
	run, err := Create(t.Context(), cluster, exampleConfig())
	if err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "clusterroles", forbidden("no"))
	client.PrependReactor("get", "clusterrolebindings", forbidden("no"))
	if err := run.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWaitGoneOutlastsThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster()
		run := mustCreate(t, cluster)
		createPod(runningPod())(t, client)
		started := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			if err := client.CoreV1().Pods("shop").Delete(t.Context(), runningPod().Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}()
		if err := run.WaitGone(t.Context()); err != nil || time.Since(started) < 3*time.Second {
			t.Errorf("returned after %s, %v", time.Since(started), err)
		}
	})
}

func TestRunsAreListedAndFound(t *testing.T) {
	cluster, _ := fakeCluster(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "backup", Namespace: "shop"}})
	mustCreate(t, cluster)
	runs, err := List(t.Context(), cluster, "shop")
	if err != nil || len(runs) != 1 || runs[0].Name != "lapse-x7k2p" || runs[0].Namespace != "shop" {
		t.Errorf("listed %v, %v", runs, err)
	}
	if run, err := Find(t.Context(), cluster, "shop", "lapse-x7k2p"); err != nil || run.Job.UID != "job-1" {
		t.Errorf("found %v, %v", run, err)
	}
	for _, name := range []string{"backup", "nothing"} {
		_, err := Find(t.Context(), cluster, "shop", name)
		wantHint(t, err, "`lapse status -n shop`")
	}
}

// startup runs waitRunning in virtual time while happen changes the cluster.
func startup(t *testing.T, happen func(t *testing.T, client *fake.Clientset)) (*corev1.Pod, time.Duration, error) {
	var pod *corev1.Pod
	var took time.Duration
	var err error
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster()
		run := mustCreate(t, cluster)
		started := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			happen(t, client)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		pod, err = run.waitRunning(ctx)
		took = time.Since(started)
	})
	return pod, took, err
}

func createPod(pod *corev1.Pod) func(*testing.T, *fake.Clientset) {
	return func(t *testing.T, client *fake.Clientset) {
		if _, err := client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitRunningSeesThePodStart(t *testing.T) {
	pod, took, err := startup(t, func(t *testing.T, client *fake.Clientset) {
		pending := runningPod()
		pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
		createPod(pending)(t, client)
		time.Sleep(2 * time.Second)
		if _, err := client.CoreV1().Pods("shop").Update(t.Context(), runningPod(), metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || pod.Name != "lapse-x7k2p-abcde" || took != 5*time.Second {
		t.Errorf("got %v after %s, %v", pod, took, err)
	}
}

func waitingPod(reason, message string) *corev1.Pod {
	pod := runningPod()
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: ContainerName, Image: "lapse:v1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
	return pod
}

func unschedulablePod() *corev1.Pod {
	pod := runningPod()
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient memory.",
	}}}
	return pod
}

func failedCreate(message string) func(*testing.T, *fake.Clientset) {
	return func(t *testing.T, client *fake.Clientset) {
		_, err := client.CoreV1().Events("shop").Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "lapse-x7k2p.1", Namespace: "shop"},
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "lapse-x7k2p", UID: "job-1"},
			Reason:         "FailedCreate", Message: message,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	}
}

func failJob(reason, message string) func(*testing.T, *fake.Clientset) {
	return func(t *testing.T, client *fake.Clientset) {
		job, err := client.BatchV1().Jobs("shop").Get(t.Context(), "lapse-x7k2p", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
		if _, err := client.BatchV1().Jobs("shop").UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatKeepsARunFromStartingIsReportedAtOnce(t *testing.T) {
	deletedPod := runningPod()
	deletedPod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	deletedPod.DeletionTimestamp = new(metav1.Now())
	deletedPod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	evicted := runningPod()
	evicted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	for _, test := range []struct {
		name         string
		happen       func(*testing.T, *fake.Clientset)
		reason, want string
	}{
		{"image not found", createPod(waitingPod("ErrImagePull", "not found")), "ErrImagePull", "lapse image push"},
		{"image back-off", createPod(waitingPod("ImagePullBackOff", "Back-off pulling image")), "ImagePullBackOff", "lapse image load"},
		{"image for another platform", createPod(endedPod("exec /lapse: exec format error")), "Error", "--binary linux/amd64=PATH"},
		{"image not loaded", createPod(waitingPod("ErrImageNeverPull", "not present with pull policy of Never")), "ErrImageNeverPull", `"lapse:v1"`},
		{"cannot be created", createPod(waitingPod("CreateContainerConfigError", "secret not found")), "CreateContainerConfigError", "secret"},
		{"crash", createPod(endedPod("unknown flag: --rat")), "Error", "exit code 3: unknown flag: --rat"},
		{"evicted", createPod(evicted), "Evicted", "low on resource"},
		{"deleted", createPod(deletedPod), "Deleted", "was deleted"},
		{"Pod Security", failedCreate(`Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"`), "FailedCreate", "restricted"},
		{"quota", failedCreate(`Error creating: pods "x" is forbidden: exceeded quota: small, requested: requests.cpu=100m,pods=1, used: requests.cpu=950m,pods=3, limited: requests.cpu=1,pods=3`), "FailedCreate",
			"the quota small leaves no room: the run asks for requests.cpu=100m,pods=1, in use is requests.cpu=950m,pods=3, allowed is requests.cpu=1,pods=3"},
		{"OpenShift", failedCreate(`Error creating: pods "x" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .containers[0].runAsUser: Invalid value: 65532: must be in the ranges: [1000680000, 1000689999]]`), "FailedCreate",
			"`oc adm policy add-scc-to-group nonroot-v2 system:serviceaccounts:shop`"},
		{"CPU limit demanded", failedCreate(`Error creating: pods "x" is forbidden: failed quota: small: must specify limits.cpu for: lapse`), "FailedCreate", "LimitRange"},
		{"policy", failedCreate(`Error creating: admission webhook "x" denied the request: no`), "FailedCreate", "admission policy"},
		{"LimitRange with a low default limit", failedCreate(`Error creating: Pod "x" is invalid: spec.containers[0].resources.requests: Invalid value: "300m": must be less than or equal to cpu limit of 100m`), "FailedCreate", "--cpu 100m"},
		{"LimitRange with a low maximum", failedCreate(`Error creating: pods "x" is forbidden: maximum cpu usage per Container is 200m, but request is 300m`), "FailedCreate", "kubectl describe limitrange -n shop"},
		{"LimitRange with little memory", failedCreate(`Error creating: pods "x" is forbidden: maximum memory usage per Container is 256Mi, but limit is 512Mi`), "FailedCreate", "no flag changes its memory"},
		{"invalid", failedCreate(`Error creating: Pod "x" is invalid: spec.priority: Forbidden: no`), "FailedCreate", "webhook"},
		{"Job failed", failJob("DeadlineExceeded", "Job was active longer than specified deadline"), "DeadlineExceeded", "longer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, took, err := startup(t, test.happen)
			start, ok := errors.AsType[*StartError](err)
			if !ok || start.Reason != test.reason {
				t.Fatalf("error is %v", err)
			}
			if !strings.Contains(err.Error()+hint.Of(err), test.want) {
				t.Errorf("%q, hint %q: neither says %q", err, hint.Of(err), test.want)
			}
			if took != 3*time.Second {
				t.Errorf("reported after %s", took)
			}
			broken := []string{"crash", "evicted", "deleted", "Job failed"}
			if got, want := Refused(err), !slices.Contains(broken, test.name); got != want {
				t.Errorf("refused as it was asked for: %v", got)
			}
		})
	}
}

func TestFailedJobIsExplainedByItsPod(t *testing.T) {
	cluster, _ := fakeCluster(endedPod("panic: oh"))
	run := mustCreate(t, cluster)
	failed := run.Job.DeepCopy()
	failed.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
	if err := run.judgeJob(t.Context(), failed); err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("error is %v", err)
	}
}

// The kubelet starts these containers at its next attempt.
func TestWaitingGoesOnWhileTheKubeletTriesAgain(t *testing.T) {
	for _, waiting := range []struct{ reason, message string }{
		{"CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition"},
		{"CreateContainerError", "context deadline exceeded"},
		{"CreateContainerError", `failed to reserve container name "lapse_x_0": name "lapse_x_0" is reserved for "5f2"`},
	} {
		_, took, err := startup(t, func(t *testing.T, client *fake.Clientset) {
			createPod(waitingPod(waiting.reason, waiting.message))(t, client)
			time.Sleep(10 * time.Second)
			if _, err := client.CoreV1().Pods("shop").Update(t.Context(), runningPod(), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		if err != nil || took != 13*time.Second {
			t.Errorf("%s: after %s: %v", waiting.message, took, err)
		}
	}
}

func TestWaitingIgnoresAnEarlierRunOfTheName(t *testing.T) {
	_, took, err := startup(t, func(t *testing.T, client *fake.Clientset) {
		old := endedPod("panic: long ago")
		old.Name, old.OwnerReferences[0].UID = "lapse-x7k2p-older", types.UID("job-0")
		createPod(old)(t, client)
		event := failedCreate("forbidden: long ago")
		client.PrependReactor("create", "events", func(action ktesting.Action) (bool, runtime.Object, error) {
			action.(ktesting.CreateAction).GetObject().(*corev1.Event).InvolvedObject.UID = "job-0"
			return false, nil, nil
		})
		event(t, client)
		time.Sleep(time.Second)
		createPod(runningPod())(t, client)
	})
	if err != nil || took != 4*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

func TestTransientCreateFailureIsWaitedOut(t *testing.T) {
	_, took, err := startup(t, func(t *testing.T, client *fake.Clientset) {
		failedCreate("Error creating: Internal error occurred: etcdserver: request timed out")(t, client)
		time.Sleep(time.Second)
		createPod(runningPod())(t, client)
	})
	if err != nil || took != 4*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
}

const hangingWebhook = `Error creating: Internal error occurred: failed calling webhook "pods.example.com": context deadline exceeded`

func TestWhatKeepsTheJobFromCreatingItsPodIsNamedWhileItTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster()
		run := mustCreate(t, cluster)
		var said []string
		run.Notify = func(what string) { said = append(said, what) }
		go func() {
			time.Sleep(time.Second)
			failedCreate(hangingWebhook)(t, client)
			time.Sleep(time.Second)
			createPod(waitingPod("ContainerCreating", ""))(t, client) // an image takes its time
		}()
		run.CreateWait = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		_, err := run.waitRunning(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a Pod that is there was not waited for: %v", err)
		}
		if want := "waiting for the Job to create its Pod (FailedCreate: " + hangingWebhook + ")"; !slices.Contains(said, want) {
			t.Errorf("the user reads %q, and not %q", said, want)
		}
		if last := said[len(said)-1]; !strings.Contains(last, "ContainerCreating") {
			t.Errorf("the last that the user reads is %q", last)
		}
	})
}

func TestTheWaitForAScheduledPodEnds(t *testing.T) {
	unseen := unschedulablePod()
	unseen.Status.Conditions = nil
	for name, test := range map[string]struct {
		happen       func(*testing.T, *fake.Clientset)
		reason, want string
	}{
		"a webhook hangs": {failedCreate(hangingWebhook), "FailedCreate", "for the Job to create its Pod (FailedCreate: " + hangingWebhook + ")"},
		"silence":         {func(*testing.T, *fake.Clientset) {}, "FailedCreate", "for the Job to create its Pod"},
		"no room":         {createPod(unschedulablePod()), "Unschedulable", "for Pod lapse-x7k2p-abcde to be scheduled (Unschedulable: 0/3 nodes are available: 3 Insufficient memory.)"},
		"no scheduler":    {createPod(unseen), "Unschedulable", "for Pod lapse-x7k2p-abcde to be scheduled"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster, client := fakeCluster()
			run := mustCreate(t, cluster)
			run.CreateWait = time.Minute
			test.happen(t, client)
			began := time.Now()
			_, err := run.waitRunning(t.Context())
			want := "the run does not start: " + test.reason + ": waited 1m0s (--wait) " + test.want
			if err == nil || err.Error() != want || time.Since(began) != time.Minute || !Refused(err) || !strings.Contains(hint.Of(err), "--wait 5m") {
				t.Errorf("%s: after %s: %v", name, time.Since(began), err)
			}
		})
	}
}

// An autoscaler adds a node after the scheduler has found no room.
func TestANodeThatIsAddedIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster()
		run := mustCreate(t, cluster)
		run.CreateWait = time.Minute
		var said []string
		run.Notify = func(what string) { said = append(said, what) }
		createPod(unschedulablePod())(t, client)
		update := func(pod *corev1.Pod) {
			if _, err := client.CoreV1().Pods("shop").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		go func() {
			time.Sleep(45 * time.Second)
			update(waitingPod("ContainerCreating", "")) // the node is new, and has no image yet
			time.Sleep(45 * time.Second)
			update(runningPod())
		}()
		if pod, err := run.waitRunning(t.Context()); err != nil || pod == nil || time.Since(began) != 90*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if want := "waiting for Pod lapse-x7k2p-abcde to be scheduled (Unschedulable: 0/3 nodes are available: 3 Insufficient memory.)"; !slices.Contains(said, want) {
			t.Errorf("the user reads %q, and not %q", said, want)
		}
	})
}

// The Pods of `lapse routes` wait for nodes as long as the Job's Pod.
func TestTheCanaryWaitsForItsPods(t *testing.T) {
	unscheduled := unschedulablePod()
	unscheduled.Labels, unscheduled.OwnerReferences = canaryLabels("lapse-x7k2p"), nil
	scheduled := waitingPod("ContainerCreating", "")
	scheduled.Labels, scheduled.OwnerReferences = unscheduled.Labels, nil
	ready := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "canary-1", Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: CanaryName("lapse-x7k2p")}},
		Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	const said = "waiting for Pod lapse-x7k2p-abcde to be scheduled (Unschedulable: 0/3 nodes are available: 3 Insufficient memory.)"
	for _, test := range []struct {
		name         string
		pod, later   *corev1.Pod // at the start, and after 45 s
		took         time.Duration
		reason, said string // reason "": it is ready after took
	}{
		{"a node is added", unscheduled, scheduled, 90 * time.Second, "", said},
		{"no node has room", unscheduled, nil, time.Minute, "Unschedulable", said},
		{"nothing creates them", nil, nil, time.Minute, "FailedCreate", "waiting for the Pods of Service " + CanaryName("lapse-x7k2p") + " to be created"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster, client := fakeCluster()
			cluster.CreateWait = time.Minute
			heard := map[string]bool{}
			cluster.Notify = func(what string) { heard[what] = true }
			if test.pod != nil {
				createPod(test.pod.DeepCopy())(t, client)
			}
			began := time.Now()
			if test.later != nil {
				time.AfterFunc(45*time.Second, func() {
					if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), test.later.DeepCopy(), "shop"); err != nil {
						t.Error(err)
					}
				})
				time.AfterFunc(test.took, func() {
					if err := client.Tracker().Add(ready.DeepCopy()); err != nil {
						t.Error(err)
					}
				})
			}
			config := exampleConfig()
			config.CanaryPods = 1
			_, err := Create(t.Context(), cluster, config)
			start, _ := errors.AsType[*StartError](err)
			if took := time.Since(began); (err == nil) != (test.reason == "") || start != nil && start.Reason != test.reason || err != nil && !Refused(err) ||
				took < test.took || took > test.took+2*askAgain {
				t.Errorf("%s: after %s: %v", test.name, took, err)
			}
			if !heard[test.said] {
				t.Errorf("%s: the user reads %v", test.name, heard)
			}
		})
	}
}

// Right after `kubectl apply` there is no Pod, then one that does not run. Neither is gone.
func TestARunThatHasNotStartedIsToldFromOneThatIsGone(t *testing.T) {
	deleted := waitingPod("ContainerCreating", "")
	deleted.DeletionTimestamp = new(metav1.Now())
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		job     batchv1.JobStatus
		toStart bool
	}{
		{"no Pod yet", nil, batchv1.JobStatus{}, true},
		{"no Pod yet, but an active Job", nil, batchv1.JobStatus{Active: 1}, true},
		{"no Pod any more", nil, batchv1.JobStatus{Failed: 1}, false},
		{"unscheduled", unschedulablePod(), batchv1.JobStatus{Active: 1}, true},
		{"its image comes", waitingPod("ContainerCreating", ""), batchv1.JobStatus{Active: 1}, true},
		{"deleted before it ran", deleted, batchv1.JobStatus{Active: 1}, false},
		{"it runs", runningPod(), batchv1.JobStatus{Active: 1}, false},
		{"it has ended", endedPod("{}"), batchv1.JobStatus{Succeeded: 1}, false},
	} {
		run := &Run{Job: &batchv1.Job{Status: test.job}}
		if got := run.isToStart(test.pod); got != test.toStart {
			t.Errorf("%s: is to start: %v", test.name, got)
		}
	}
}

func TestRetrieveWaitsForARunThatHasNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster()
		run := mustCreate(t, cluster)
		var said []string
		run.Notify = func(what string) { said = append(said, what) }
		go func() {
			time.Sleep(time.Second)
			createPod(runningPod())(t, client)
		}()
		pod, err := run.startedPod(t.Context())
		if err != nil || pod == nil || !isRunning(pod) {
			t.Fatalf("Pod %v, %v", pod, err)
		}
		if want := "run lapse-x7k2p has not started yet: waiting for the Job to create its Pod"; said[0] != want {
			t.Errorf("the user reads %q, want %q", said, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		cluster, _ := fakeCluster(waitingPod("ErrImagePull", "not found"))
		run := mustCreate(t, cluster)
		if _, err := run.startedPod(t.Context()); !isStartError(err) || hint.Of(err) == "" {
			t.Errorf("a run that cannot start ends with %v", err)
		}
	})
}

func TestWaitingInVainSaysWhatForItWaited(t *testing.T) {
	for want, happen := range map[string]func(*testing.T, *fake.Clientset){
		"the Job to create its Pod":        func(*testing.T, *fake.Clientset) {},
		"on node-b to start (PodInitializ": createPod(waitingPod("PodInitializing", "")),
	} {
		_, took, err := startup(t, happen)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) || took != time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	}
}

func TestWaitingWithoutTheRightToSeePodsFails(t *testing.T) {
	cluster, client := fakeCluster()
	run := mustCreate(t, cluster)
	client.PrependReactor("list", "pods", forbidden("no"))
	if _, err := run.waitRunning(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
}

func TestPodThatDiesBeforeItMeasuresIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client := fakeCluster(runningPod())
		run := mustCreate(t, cluster)
		nobody := agent.NewClient(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") })
		time.AfterFunc(7*time.Second, func() {
			if _, err := client.CoreV1().Pods("shop").Update(t.Context(), endedPod("panic: oh"), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		started := time.Now()
		err := run.waitMeasuring(t.Context(), nobody)
		if !isStartError(err) || !strings.Contains(err.Error(), "panic: oh") {
			t.Errorf("error is %v", err)
		}
		if took := time.Since(started); took != 7*time.Second {
			t.Errorf("reported after %s", took)
		}
	})
}
