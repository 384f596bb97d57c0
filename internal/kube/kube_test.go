package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
)

var (
	named     = metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Labels: map[string]string{"app": "web"}}
	selection = metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "metadata.name=web", Limit: 7, ResourceVersion: "42", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(30))}
)

// calls are everything a [kube.Client] can be asked, for each kind.
var calls = map[string]func(*exchange, kube.Client){
	"configmaps": func(x *exchange, c kube.Client) {
		exercise(x, c.ConfigMaps("shop"), &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"a": "b"}}, &corev1.ConfigMapList{Items: []corev1.ConfigMap{{ObjectMeta: named}}})
	},
	"events": func(x *exchange, c kube.Client) {
		exercise(x, c.Events(""), &corev1.Event{ObjectMeta: named, Reason: "Killing"}, &corev1.EventList{Items: []corev1.Event{{ObjectMeta: named}}})
	},
	"namespaces": func(x *exchange, c kube.Client) {
		exercise(x, c.Namespaces(), &corev1.Namespace{ObjectMeta: named}, &corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: named}}})
	},
	"nodes": func(x *exchange, c kube.Client) {
		exercise(x, c.Nodes(), &corev1.Node{ObjectMeta: named}, &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: named}}})
	},
	"pods": func(x *exchange, c kube.Client) {
		exercise(x, c.Pods("shop"), &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{NodeName: "node-b"}}, &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: named}}})
	},
	"secrets": func(x *exchange, c kube.Client) {
		write(x, c.Secrets("shop"), &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"a": "b"}})
		got, err := c.Secrets("shop").Get(x.t.Context(), "web", metav1.GetOptions{ResourceVersion: "42"})
		x.note(got, err)
	},
	"serviceaccounts": func(x *exchange, c kube.Client) {
		exercise(x, c.ServiceAccounts("shop"), &corev1.ServiceAccount{ObjectMeta: named}, &corev1.ServiceAccountList{Items: []corev1.ServiceAccount{{ObjectMeta: named}}})
	},
	"services": func(x *exchange, c kube.Client) {
		exercise(x, c.Services("shop"), &corev1.Service{ObjectMeta: named}, &corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: named}}})
	},
	"endpointslices": func(x *exchange, c kube.Client) {
		exercise(x, c.EndpointSlices("shop"), &discoveryv1.EndpointSlice{ObjectMeta: named}, &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{{ObjectMeta: named}}})
	},
	"deployments": func(x *exchange, c kube.Client) {
		exercise(x, c.Deployments("shop"), &appsv1.Deployment{ObjectMeta: named}, &appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: named}}})
	},
	"replicasets": func(x *exchange, c kube.Client) {
		exercise(x, c.ReplicaSets("shop"), &appsv1.ReplicaSet{ObjectMeta: named}, &appsv1.ReplicaSetList{Items: []appsv1.ReplicaSet{{ObjectMeta: named}}})
	},
	"statefulsets": func(x *exchange, c kube.Client) {
		exercise(x, c.StatefulSets("shop"), &appsv1.StatefulSet{ObjectMeta: named}, &appsv1.StatefulSetList{Items: []appsv1.StatefulSet{{ObjectMeta: named}}})
	},
	"evictionrequests": func(x *exchange, c kube.Client) {
		exercise(x, c.EvictionRequests("shop"), &lifecyclev1alpha1.EvictionRequest{ObjectMeta: named, Spec: lifecyclev1alpha1.EvictionRequestSpec{Requester: "example.com/upgrade"}}, &lifecyclev1alpha1.EvictionRequestList{Items: []lifecyclev1alpha1.EvictionRequest{{ObjectMeta: named}}})
	},
	"poddisruptionbudgets": func(x *exchange, c kube.Client) {
		exercise(x, c.PodDisruptionBudgets("shop"), &policyv1.PodDisruptionBudget{ObjectMeta: named}, &policyv1.PodDisruptionBudgetList{Items: []policyv1.PodDisruptionBudget{{ObjectMeta: named}}})
	},
	"jobs": func(x *exchange, c kube.Client) {
		exercise(x, c.Jobs("shop"), &batchv1.Job{ObjectMeta: named}, &batchv1.JobList{Items: []batchv1.Job{{ObjectMeta: named}}})
	},
	"clusterrolebindings": func(x *exchange, c kube.Client) {
		exercise(x, c.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: named}, &rbacv1.ClusterRoleBindingList{Items: []rbacv1.ClusterRoleBinding{{ObjectMeta: named}}})
	},
	"clusterroles": func(x *exchange, c kube.Client) {
		exercise(x, c.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: named}, &rbacv1.ClusterRoleList{Items: []rbacv1.ClusterRole{{ObjectMeta: named}}})
	},
	"rolebindings": func(x *exchange, c kube.Client) {
		exercise(x, c.RoleBindings("shop"), &rbacv1.RoleBinding{ObjectMeta: named}, &rbacv1.RoleBindingList{Items: []rbacv1.RoleBinding{{ObjectMeta: named}}})
	},
	"leases": func(x *exchange, c kube.Client) {
		exercise(x, c.Leases("shop"), &coordinationv1.Lease{ObjectMeta: named}, &coordinationv1.LeaseList{Items: []coordinationv1.Lease{{ObjectMeta: named}}})
	},
	"roles": func(x *exchange, c kube.Client) {
		exercise(x, c.Roles("shop"), &rbacv1.Role{ObjectMeta: named}, &rbacv1.RoleList{Items: []rbacv1.Role{{ObjectMeta: named}}})
	},
	"selfsubjectaccessreviews": func(x *exchange, c kube.Client) {
		create(x, c.SelfSubjectAccessReviews(), &authv1.SelfSubjectAccessReview{Status: authv1.SubjectAccessReviewStatus{Allowed: true}})
	},
	"selfsubjectrulesreviews": func(x *exchange, c kube.Client) {
		create(x, c.SelfSubjectRulesReviews(), &authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: "shop"}})
	},
	"a Pod's log": func(x *exchange, c kube.Client) {
		x.answer = nil
		log, err := c.PodLog(x.t.Context(), "shop", "web", corev1.PodLogOptions{Container: "lapse"})
		if err != nil {
			x.note(nil, err)
			return
		}
		defer log.Close()
		text, err := io.ReadAll(log)
		x.note(string(text), err)
	},
	"resources": func(x *exchange, c kube.Client) {
		x.answer = nil
		list, err := c.Resources(x.t.Context(), "apps/v1")
		x.note(list, err)
	},
	"version": func(x *exchange, c kube.Client) {
		x.answer = nil
		info, err := c.Version(x.t.Context())
		x.note(info, err)
	},
}

// exercise asks for everything that can be asked of one kind.
func exercise[T, L runtime.Object](x *exchange, objects kube.Objects[T, L], object T, list L) {
	ctx := x.t.Context()
	write(x, objects, object)
	got, err := objects.Get(ctx, "web", metav1.GetOptions{ResourceVersion: "42"})
	x.note(got, err)
	x.follow(objects.Watch, selection)
	x.answer = list
	listed, err := objects.List(ctx, selection)
	x.note(listed, err)
}

func write[T runtime.Object](x *exchange, objects kube.Writer[T], object T) {
	create(x, objects, object)
	patched, err := objects.Patch(x.t.Context(), "web", types.StrategicMergePatchType, []byte(`{"metadata":{}}`), metav1.PatchOptions{FieldManager: "lapse"}, "status")
	x.note(patched, err)
	x.note(nil, objects.Delete(x.t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

func create[T runtime.Object](x *exchange, objects kube.Creator[T], object T) {
	x.answer = object
	created, err := objects.Create(x.t.Context(), object, metav1.CreateOptions{FieldManager: "lapse"})
	x.note(created, err)
}

// An exchange is an API server, and a log of what a client asked of it and made of the answers.
type exchange struct {
	t       *testing.T
	answer  runtime.Object // to every request; nil: text
	refused bool           // every request is forbidden
	log     []string
}

type watchFunc = func(context.Context, metav1.ListOptions) (watch.Interface, error)

// note logs what a call returned. A refused one is judged by its error alone.
func (x *exchange) note(result any, err error) {
	if err != nil {
		x.log = append(x.log, fmt.Sprintf("%v (forbidden: %v)", err, apierrors.IsForbidden(err)))
		return
	}
	text, err := json.Marshal(result)
	x.log = append(x.log, fmt.Sprintf("%T %s %v", result, text, err))
}

func (x *exchange) follow(watch watchFunc, options metav1.ListOptions) {
	changes, err := watch(x.t.Context(), options)
	if err != nil {
		x.note(nil, err)
		return
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		x.note(change, nil)
	}
}

func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	x.log = append(x.log, fmt.Sprintf("%s %s\n%v\n%q %v", r.Method, r.URL, r.Header, body, err))
	switch {
	case x.refused:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"you may not","code":403}`)
	case x.answer == nil && r.URL.Path == "/version":
		json.NewEncoder(w).Encode(version.Info{GitVersion: "v1.36.3"})
	case x.answer == nil && r.URL.Path == "/apis/apps/v1":
		kubetest.Answer(w, http.StatusOK, metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Namespaced: true}}})
	case x.answer == nil:
		fmt.Fprint(w, "a line\n")
	default:
		x.encode(w, r)
	}
}

// encode answers in protobuf, as an API server does whom the client lets.
func (x *exchange) encode(w http.ResponseWriter, r *http.Request) {
	const mediaType = "application/vnd.kubernetes.protobuf"
	if !strings.HasPrefix(r.Header.Get("Accept"), mediaType) {
		x.t.Errorf("%s %s accepts %q: JSON costs more", r.Method, r.URL, r.Header.Get("Accept"))
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	kinds, _, err := scheme.Scheme.ObjectKinds(x.answer)
	if err != nil {
		x.t.Fatal(err)
	}
	object, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, kinds[0].GroupVersion()), x.answer)
	if err != nil {
		x.t.Fatal(err)
	}
	if r.FormValue("watch") == "" {
		w.Header().Set("Content-Type", mediaType)
		w.Write(object)
		return
	}
	w.Header().Set("Content-Type", mediaType+";stream=watch")
	stream := streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(w), info.StreamSerializer.Serializer)
	if err := stream.Encode(&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object}}); err != nil {
		x.t.Error(err)
	}
}

// client-go's clientset is right by definition: whatever is asked, the requests are the same to the byte, and so is
// what comes of the answers.
func TestAsksWhatTheClientsetAsks(t *testing.T) {
	for name, call := range calls {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s refused=%v", name, refused), func(t *testing.T) {
				want := exchangeWith(t, refused, call, func(config *rest.Config) (kube.Client, error) {
					set, err := kubernetes.NewForConfig(config)
					return kubetest.Client(set), err
				})
				got := exchangeWith(t, refused, call, func(config *rest.Config) (kube.Client, error) { return kube.New(config) })
				if diff := cmp.Diff(want, got); diff != "" || len(got) < 2 {
					t.Errorf("requests and results (-clientset +ours):\n%s", diff)
				}
			})
		}
	}
}

// exchangeWith is what a client asks of a server, and what it makes of the answers.
func exchangeWith(t *testing.T, refused bool, call func(*exchange, kube.Client), newClient func(*rest.Config) (kube.Client, error)) []string {
	t.Helper()
	x := &exchange{t: t, refused: refused}
	server := httptest.NewServer(x)
	defer server.Close()
	client, err := newClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	call(x, client)
	return x.log
}

// For a group that it does not have, an API server answers in plain text.
func TestAGroupThatIsNotServedIsNotFound(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	api, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := api.Resources(t.Context(), "lifecycle.k8s.io/v1alpha1"); !apierrors.IsNotFound(err) {
		t.Errorf("%v, %v", list, err)
	}
}

func TestPortForwardsLeadWhereKubectlsDo(t *testing.T) {
	api, err := kube.New(&rest.Config{Host: "https://192.0.2.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := api.PortForward("shop", "web-1").String(), "https://192.0.2.1:6443/api/v1/namespaces/shop/pods/web-1/portforward"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	_, err := kube.New(&rest.Config{Host: "https://192.0.2.1", TLSClientConfig: rest.TLSClientConfig{CAFile: "/absent/ca.crt"}})
	if err == nil || !strings.Contains(err.Error(), "/absent/ca.crt") {
		t.Errorf("error %v, want one that names the missing file", err)
	}
}
