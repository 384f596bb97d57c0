package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"lapse/internal/kube/kubetest"
)

// fakeAPI is as much of a Kubernetes API as it takes to refuse what cannot be measured: Services in the namespace
// shop, one of them with a ready endpoint and a Pod, StatefulSets that take forever to list, rights there (but none
// to PodDisruptionBudgets), and none in the namespace forbidden or in the cluster. Under /expired no credentials are
// good enough.
func fakeAPI(living *livingShop) http.Handler {
	mux := http.NewServeMux()
	living.serveAPI(mux)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Answer(w, 200, apiversion.Info{GitVersion: "v1.36.3"})
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/services", func(w http.ResponseWriter, _ *http.Request) {
		list := corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}}
		for _, s := range fakeServices {
			list.Items = append(list.Items, s)
		}
		kubetest.Answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/services/{name}", func(w http.ResponseWriter, r *http.Request) {
		s, ok := fakeServices[r.PathValue("name")]
		if !ok {
			kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, `services "`+r.PathValue("name")+`" not found`)
			return
		}
		kubetest.Answer(w, 200, s)
	})
	mux.HandleFunc("GET /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", func(w http.ResponseWriter, r *http.Request) {
		list := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}}
		if _, name, _ := strings.Cut(r.FormValue("labelSelector"), "="); slices.Contains([]string{"web", "peers", "six", "pending"}, name) {
			list.Items = append(list.Items, readySlice(name))
		}
		kubetest.Answer(w, 200, list)
	})
	mux.HandleFunc("/expired/", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Refuse(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized")
	})
	mux.HandleFunc("GET /api/v1/namespaces/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if name != "shop" {
			kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, `namespaces "`+name+`" not found`)
			return
		}
		kubetest.Answer(w, 200, corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	mux.HandleFunc("GET /apis/batch/v1/namespaces/{name}/jobs", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Answer(w, 200, batchv1.JobList{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}})
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", func(w http.ResponseWriter, r *http.Request) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		if strings.Contains(r.FormValue("labelSelector"), "app=web") {
			list.Items = append(list.Items, fakePod())
		}
		kubetest.Answer(w, 200, list)
	})
	mux.HandleFunc("GET /apis/apps/v1/namespaces/shop/deployments", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Answer(w, 200, map[string]any{"apiVersion": "apps/v1", "kind": "DeploymentList", "items": []any{}})
	})
	mux.HandleFunc("GET /apis/apps/v1/namespaces/shop/statefulsets", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // slower than anybody waits
	})
	mux.HandleFunc("GET /apis/policy/v1/namespaces/shop/poddisruptionbudgets", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "you may not")
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "you may not")
	})
	mux.HandleFunc("GET /api/v1/namespaces/slow/services/{name}", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	for path, kind := range map[string]string{
		"/apis/apps/v1/namespaces/{name}/daemonsets":                        "DaemonSetList",
		"/api/v1/namespaces/{name}/serviceaccounts":                         "ServiceAccountList",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/roles":        "RoleList",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings": "RoleBindingList",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles":                   "ClusterRoleList",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings":            "ClusterRoleBindingList",
	} {
		version := "v1"
		switch {
		case strings.HasPrefix(path, "/apis/rbac"):
			version = "rbac.authorization.k8s.io/v1"
		case strings.HasPrefix(path, "/apis/apps"):
			version = "apps/v1"
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			kubetest.Answer(w, 200, map[string]any{"apiVersion": version, "kind": kind, "items": []any{}})
		})
	}
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		asked, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			panic(err)
		}
		namespace := asked.(*authv1.SelfSubjectAccessReview).Spec.ResourceAttributes.Namespace
		kubetest.Answer(w, 201, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": map[string]any{"allowed": namespace == "shop"}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/namespaces/forbidden/") {
			kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "you may not")
			return
		}
		kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, r.URL.Path+" not found")
	})
	return mux
}

var fakeServices = map[string]corev1.Service{
	"web":        kubetest.Service("web", func(s *corev1.ServiceSpec) {}),
	"empty":      kubetest.Service("empty", func(s *corev1.ServiceSpec) {}),
	"selectless": kubetest.Service("selectless", func(s *corev1.ServiceSpec) { s.Selector = nil }),
	"headless":   kubetest.Service("headless", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }),
	"peers":      kubetest.Service("peers", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }),
	"pending":    kubetest.Service("pending", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }),
	"six":        kubetest.Service("six", func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "fe80::9", []string{"fe80::9"} }),
	"udp":        kubetest.Service("udp", func(s *corev1.ServiceSpec) { s.Ports = []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}} }),
	"nowhere": kubetest.Service("nowhere", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "no-such-host.invalid"}
	}),
	"outside": kubetest.Service("outside", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
	}),
	"two": kubetest.Service("two", func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP})
	}),
}

func fakePod() corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "shop/web:1"}}},
	}
}

func readySlice(service string) discoveryv1.EndpointSlice {
	port, name := int32(8080), "http"
	return discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}}},
		Ports:      []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
}
