package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// fakeAPI is as much of a Kubernetes API as it takes to refuse what cannot be measured: Services in the namespace
// shop, one of them with a ready endpoint and a Pod, StatefulSets that take forever to list, rights there (but none
// to PodDisruptionBudgets), and none in the namespace forbidden or in the cluster. Under /expired no credentials are
// good enough.
func fakeAPI(living *livingShop) http.Handler {
	mux := http.NewServeMux()
	living.serveAPI(mux)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, apiversion.Info{GitVersion: "v1.36.3"}) })
	mux.HandleFunc("GET /api/v1/namespaces/shop/services", func(w http.ResponseWriter, _ *http.Request) {
		list := corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}}
		for _, s := range fakeServices {
			list.Items = append(list.Items, s)
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/services/{name}", func(w http.ResponseWriter, r *http.Request) {
		s, ok := fakeServices[r.PathValue("name")]
		if !ok {
			refuseAPI(w, 404, metav1.StatusReasonNotFound, `services "`+r.PathValue("name")+`" not found`)
			return
		}
		answer(w, 200, s)
	})
	mux.HandleFunc("GET /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", func(w http.ResponseWriter, r *http.Request) {
		list := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}}
		if _, name, _ := strings.Cut(r.FormValue("labelSelector"), "="); slices.Contains([]string{"web", "peers", "six", "pending"}, name) {
			list.Items = append(list.Items, readySlice(name))
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("/expired/", func(w http.ResponseWriter, _ *http.Request) {
		refuseAPI(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized")
	})
	mux.HandleFunc("GET /api/v1/namespaces/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if name != "shop" {
			refuseAPI(w, 404, metav1.StatusReasonNotFound, `namespaces "`+name+`" not found`)
			return
		}
		answer(w, 200, corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	mux.HandleFunc("GET /apis/batch/v1/namespaces/{name}/jobs", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, batchv1.JobList{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}})
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", func(w http.ResponseWriter, r *http.Request) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		if strings.Contains(r.FormValue("labelSelector"), "app=web") {
			list.Items = append(list.Items, fakePod())
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /apis/apps/v1/namespaces/shop/deployments", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"apiVersion": "apps/v1", "kind": "DeploymentList", "items": []any{}})
	})
	mux.HandleFunc("GET /apis/apps/v1/namespaces/shop/statefulsets", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // slower than anybody waits
	})
	mux.HandleFunc("GET /apis/policy/v1/namespaces/shop/poddisruptionbudgets", func(w http.ResponseWriter, _ *http.Request) {
		refuseAPI(w, 403, metav1.StatusReasonForbidden, "you may not")
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		refuseAPI(w, 403, metav1.StatusReasonForbidden, "you may not")
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
			answer(w, 200, map[string]any{"apiVersion": version, "kind": kind, "items": []any{}})
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
		answer(w, 201, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": map[string]any{"allowed": namespace == "shop"}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/namespaces/forbidden/") {
			refuseAPI(w, 403, metav1.StatusReasonForbidden, "you may not")
			return
		}
		refuseAPI(w, 404, metav1.StatusReasonNotFound, r.URL.Path+" not found")
	})
	return mux
}

var fakeServices = map[string]corev1.Service{
	"web":        fakeService("web", func(s *corev1.ServiceSpec) {}),
	"empty":      fakeService("empty", func(s *corev1.ServiceSpec) {}),
	"selectless": fakeService("selectless", func(s *corev1.ServiceSpec) { s.Selector = nil }),
	"headless":   fakeService("headless", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }),
	"peers":      fakeService("peers", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }),
	"pending":    fakeService("pending", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }),
	"six":        fakeService("six", func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "fe80::9", []string{"fe80::9"} }),
	"udp":        fakeService("udp", func(s *corev1.ServiceSpec) { s.Ports = []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}} }),
	"nowhere": fakeService("nowhere", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "no-such-host.invalid"}
	}),
	"outside": fakeService("outside", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
	}),
	"two": fakeService("two", func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP})
	}),
}

func fakeService(name string, change func(*corev1.ServiceSpec)) corev1.Service {
	s := corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.1.1", ClusterIPs: []string{"10.96.1.1"},
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	change(&s.Spec)
	return s
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

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body)
}

func refuseAPI(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: message, Code: code,
	})
}

// A watched API keeps what changed in it, for those who watch.
type watched struct {
	mu      sync.Mutex    // of its objects, too
	history []change      // the nth has version n+1
	grown   chan struct{} // closed at the next change
}

// A change is one event of a watch.
type change struct {
	resource string
	Type     string `json:"type"`
	Object   any    `json:"object"`
}

// version is the present one, and next that of the next change. The caller holds mu.
func (l *watched) version() string { return strconv.Itoa(len(l.history)) }
func (l *watched) next() string    { return strconv.Itoa(len(l.history) + 1) }

// add sends a change to who watches. The caller holds mu.
func (l *watched) add(c change) {
	l.history = append(l.history, c)
	close(l.grown)
	l.grown = make(chan struct{})
}

// serveWatch sends what changed after a version, as it does.
func (l *watched) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	from, err := strconv.Atoi(r.FormValue("resourceVersion"))
	if err != nil {
		refuseAPI(w, 400, metav1.StatusReasonBadRequest, "no version")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	for encoder := json.NewEncoder(w); ; {
		l.mu.Lock()
		news, grown := l.history[from:], l.grown
		l.mu.Unlock()
		for _, c := range news {
			if from++; c.resource == resource {
				_ = encoder.Encode(c)
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}
