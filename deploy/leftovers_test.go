package deploy

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// gone deletes only the Job of a run, as its time to live does; no garbage collector follows.
func gone(t *testing.T, client *fake.Clientset, run string) {
	t.Helper()
	if err := client.BatchV1().Jobs("shop").Delete(t.Context(), run, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apply creates the objects of a run as `kubectl apply` does.
func apply(t *testing.T, client *fake.Clientset, config Config) {
	t.Helper()
	for _, object := range config.Objects().All() {
		if o := object.(metav1.Object); o.GetNamespace() == "" && !strings.HasSuffix(o.GetName(), "-nodes") {
			o.SetNamespace("shop")
		}
		if err := client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsLeftOfARunIsListedAndRemoved(t *testing.T) {
	everything := []string{"RoleBinding", "Role", "ServiceAccount", "ClusterRoleBinding", "ClusterRole"}
	kustomized := kustomizeConfig()
	elsewhere := exampleConfig()
	elsewhere.Name, elsewhere.Namespace, elsewhere.NodesAccess = "lapse-other", "other", true
	for name, config := range map[string]Config{"generated": {Name: "lapse-x7k2p", Namespace: "shop", Image: "lapse", NodesAccess: true}, "kustomized": kustomized} {
		t.Run(name, func(t *testing.T) {
			stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: config.Name + "-2", Namespace: "shop"}}
			cluster, client := fakeCluster(stranger)
			apply(t, client, config)
			apply(t, client, elsewhere)
			if left, _, err := Leftovers(t.Context(), cluster, "shop"); err != nil || len(left) != 0 {
				t.Errorf("left while the Job is there: %v, %v", left, err)
			}
			gone(t, client, config.Name)
			left, unseen, err := Leftovers(t.Context(), cluster, "shop")
			if err != nil || len(unseen) > 0 {
				t.Fatal(unseen, err)
			}
			if diff := cmp.Diff([]Leftover{{Run: config.Name, Namespace: "shop", Kinds: everything}}, left); diff != "" {
				t.Error(diff)
			}
			if err := Remove(t.Context(), cluster, "shop", config.Name); err != nil {
				t.Error(err)
			}
			if got := leftovers(t, cluster); len(got) != 7 {
				t.Errorf("left of the other run and the stranger: %v", got)
			}
			var none *NoRunError
			if err := Remove(t.Context(), cluster, "shop", config.Name); !errors.As(err, &none) {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// Of an unattended run whose agent never came, the probers and their empty Secret are removed too. A Secret that no
// Role of the run names is somebody else's.
func TestTheProbersOfAnAppliedRunAreRemovedWithTheirSecret(t *testing.T) {
	cluster, client := fakeCluster()
	fleet := fleetConfig()
	apply(t, client, fleet)
	other := exampleConfig()
	other.Name = "lapse-other"
	apply(t, client, other)
	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keysName(other.Name), Namespace: "shop"}}
	if err := client.Tracker().Add(stranger); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{fleet.Name, other.Name} {
		if err := Remove(t.Context(), cluster, "shop", run); err != nil {
			t.Error(err)
		}
	}
	sets, err := client.AppsV1().DaemonSets("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) > 0 {
		t.Errorf("%d DaemonSets are left, %v", len(sets.Items), err)
	}
	secrets, err := client.CoreV1().Secrets("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 || secrets.Items[0].Name != stranger.Name {
		t.Errorf("Secrets %v, %v: want the stranger's alone", secrets.Items, err)
	}
}

func TestWhatMayNotBeListedIsSaid(t *testing.T) {
	cluster, client := fakeCluster()
	apply(t, client, exampleConfig())
	gone(t, client, "lapse-x7k2p")
	client.PrependReactor("list", "clusterroles", forbidden("no"))
	client.PrependReactor("list", "clusterrolebindings", forbidden("no"))
	left, unseen, err := Leftovers(t.Context(), cluster, "shop")
	if err != nil || len(left) != 1 || !slices.Equal(unseen, []string{"ClusterRoleBinding", "ClusterRole"}) {
		t.Errorf("left %v, unseen %v, %v", left, unseen, err)
	}
	client.PrependReactor("list", "roles", forbidden("no"))
	err = Remove(t.Context(), cluster, "shop", "lapse-x7k2p")
	wantHint(t, err, "lapse delete -n shop lapse-x7k2p")
	if err == nil || !strings.Contains(err.Error(), "Role") {
		t.Errorf("removed all but the Role: %v", err)
	}
}

// A crashed workstation leaves a ClusterRole behind, which no Job can own. The next run takes it away, and no other.
func TestTheNextRunRemovesClusterRolesOfRunsThatAreGone(t *testing.T) {
	cluster, client := fakeCluster()
	create := func(name string) {
		config := exampleConfig()
		config.Name, config.NodesAccess = name, true
		if _, err := Create(t.Context(), cluster, config); err != nil {
			t.Fatal(err)
		}
	}
	create("lapse-crashed")
	create("lapse-running")
	gone(t, client, "lapse-crashed")
	applied := exampleConfig()
	applied.Name, applied.NodesAccess = "lapse-applied", true // its Job is still to be applied
	if err := client.Tracker().Add(applied.Objects().ClusterRole); err != nil {
		t.Fatal(err)
	}
	stranger := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lapse-admins", Labels: map[string]string{RunLabel: "lapse-crashed"}}}
	if err := client.Tracker().Add(stranger); err != nil {
		t.Fatal(err)
	}
	unreadable := applied
	unreadable.Name, unreadable.Namespace = "lapse-elsewhere", "secret"
	role := unreadable.Objects().ClusterRole
	role.Annotations = map[string]string{jobAnnotation: "job-9"}
	if err := client.Tracker().Add(role); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "jobs", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "secret" {
			return forbidden("no")(action)
		}
		return false, nil, nil
	})

	var said strings.Builder
	cluster.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	create("lapse-next")
	if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "lapse-crashed-nodes") {
		t.Errorf("said %q", said.String())
	}
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, role := range roles.Items {
		names = append(names, role.Name)
	}
	slices.Sort(names)
	want := []string{"lapse-admins", "lapse-applied-nodes", "lapse-elsewhere-nodes", "lapse-next-nodes", "lapse-running-nodes"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// A run needs the rights that [CheckRights] asks for, and no other.
func TestARunDoesWithTheRightsThatAreAskedFor(t *testing.T) {
	for _, need := range []Needs{{}, {Secret: true}, {Nodes: true, Secret: true}} {
		cluster, client := fakeCluster(runningPod())
		// An informer's list may go on for a moment after whoever waited for it.
		var mu sync.Mutex
		var missing []string
		all := false // every right is granted
		client.PrependReactor("*", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if all {
				return false, nil, nil
			}
			right := Right{Verb: action.GetVerb(), Group: action.GetResource().Group, Resource: action.GetResource().Resource, Subresource: action.GetSubresource()}
			for _, granted := range neededRights(need) {
				granted.For, granted.Cluster, granted.Lane = "", false, ""
				if granted == right {
					return false, nil, nil
				}
			}
			missing = append(missing, right.Verb+" "+right.Resource)
			return forbidden("RBAC")(action)
		})
		config := exampleConfig()
		config.NodesAccess, config.Selectors = need.Nodes, []map[string]string{{"app": "web"}}
		if need.Secret {
			config.Private = []byte("{}")
		}
		run, err := Create(t.Context(), cluster, config)
		if err != nil {
			t.Fatalf("%+v: %v", need, err)
		}
		if _, err := run.waitRunning(t.Context()); err != nil {
			t.Errorf("%+v: %v", need, err)
		}
		if _, err := Find(t.Context(), cluster, "shop", run.Name); err != nil {
			t.Errorf("%+v: %v", need, err)
		}
		if err := run.Delete(t.Context()); err != nil {
			t.Errorf("%+v: %v", need, err)
		}
		// What else is tried may fail, for it is not needed.
		mu.Lock()
		all = true
		slices.Sort(missing)
		courtesies := []string{"get rolebindings", "get roles", "get serviceaccounts", "list nodes"}
		if need.Nodes {
			courtesies = []string{"get rolebindings", "get roles", "get serviceaccounts", "list clusterroles"}
		} else {
			courtesies = slices.Concat([]string{"get clusterrolebindings", "get clusterroles"}, courtesies)
		}
		if diff := cmp.Diff(courtesies, slices.Compact(missing)); diff != "" {
			t.Errorf("%+v: tried without a right: %s", need, diff)
		}
		mu.Unlock()
		if jobs, err := List(t.Context(), cluster, ""); err != nil || len(jobs) > 0 {
			t.Errorf("%+v: the Job is left: %v", need, err)
		}
	}
}

func TestARunsAgeIsThatOfItsOldestObject(t *testing.T) {
	cluster, client := fakeCluster()
	config := exampleConfig()
	objects := config.Objects()
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	objects.ServiceAccount.CreationTimestamp = metav1.NewTime(at.Add(time.Second))
	objects.Role.CreationTimestamp = metav1.NewTime(at)
	for _, object := range []runtime.Object{objects.ServiceAccount, objects.Role} {
		if err := client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	left, _, err := Leftovers(t.Context(), cluster, "shop")
	if err != nil || len(left) != 1 || !left[0].Created.Equal(at) {
		t.Errorf("left %v, %v", left, err)
	}
}
