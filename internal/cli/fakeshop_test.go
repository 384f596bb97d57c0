package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"lapse/internal/kube/kubetest"
)

// A livingShop is the Service web of the namespace living, in a Kubernetes API whose Pods and EndpointSlices can be
// watched: one server, as one Pod that can be replaced, and that can fail. Its Pods are this machine's addresses
// 127.0.0.1 and 127.0.0.2.
type livingShop struct {
	port int32

	kubetest.Watched
	down  bool
	told  []*corev1.Event // that were created
	pods  []corev1.Pod
	slice discoveryv1.EndpointSlice
}

func newLivingShop(port int32) *livingShop {
	s := &livingShop{port: port}
	name := "http"
	s.slice = discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "living", Name: "web-1", UID: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	s.addPod(1)
	return s
}

// startLivingShop starts the server and its API until the end of the test, and returns how to reach that.
func startLivingShop(t *testing.T) (shop *livingShop, kubeconfig string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	shop = newLivingShop(int32(listener.Addr().(*net.TCPAddr).Port))
	living := &http.Server{Handler: shop, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = living.Serve(listener) }) // until it is closed
	api := httptest.NewServer(fakeAPI(shop))
	t.Cleanup(func() {
		api.Close()
		living.Close()
		serving.Wait()
	})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubetest.Kubeconfig(api.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return shop, kubeconfig
}

// addPod makes the nth Pod, with a ready endpoint.
func (s *livingShop) addPod(n int) {
	name, address := fmt.Sprintf("web-%d", n), fmt.Sprintf("127.0.0.%d", n)
	s.pods = append(s.pods, corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "living", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "server", Image: "shop/web:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	})
	s.changed("pods", "ADDED", s.pods[len(s.pods)-1].DeepCopy())
	node := "node1"
	s.slice.Endpoints = append(s.slice.Endpoints, discoveryv1.Endpoint{
		Addresses: []string{address}, NodeName: &node, Conditions: kubetest.Ready(true, false),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "living", Name: name, UID: types.UID(name)},
	})
	s.changed("endpointslices", "MODIFIED", s.slice.DeepCopy())
}

// changed adds an event to those that are watched.
func (s *livingShop) changed(resource, kind string, object metav1.Object) {
	object.SetResourceVersion(s.Next())
	s.Add(kubetest.Change{Resource: resource, Type: kind, Object: object})
}

// replace ends the first Pod once a second one is ready. No request fails.
func (s *livingShop) replace() {
	step := func(do func()) {
		s.Lock()
		do()
		s.Unlock()
		time.Sleep(300 * time.Millisecond) // so long it takes
	}
	step(func() { s.addPod(2) })
	step(func() {
		s.pods[0].DeletionTimestamp, s.pods[0].DeletionGracePeriodSeconds = new(metav1.NewTime(time.Now().Add(30*time.Second))), new(int64(30))
		s.changed("pods", "MODIFIED", s.pods[0].DeepCopy())
		s.slice.Endpoints[0].Conditions = kubetest.Ready(false, true)
		s.changed("endpointslices", "MODIFIED", s.slice.DeepCopy())
	})
	step(func() {
		s.slice.Endpoints = s.slice.Endpoints[1:]
		s.changed("endpointslices", "MODIFIED", s.slice.DeepCopy())
		s.pods[0].DeletionGracePeriodSeconds = new(int64(0)) // as an API server sends a Pod that it removes
		s.changed("pods", "DELETED", s.pods[0].DeepCopy())
		s.pods = s.pods[1:]
	})
}

// crash makes the server fail for a while, in which no endpoint is ready, and then be well for as long.
func (s *livingShop) crash() {
	is := func(up bool) {
		s.Lock()
		defer s.Unlock()
		s.down = !up
		for i := range s.slice.Endpoints {
			s.slice.Endpoints[i].Conditions = kubetest.Ready(up, false)
		}
		s.changed("endpointslices", "MODIFIED", s.slice.DeepCopy())
	}
	for _, up := range []bool{false, true} {
		is(up)
		time.Sleep(1500 * time.Millisecond) // so long it takes
	}
}

// ServeHTTP is the server that is measured.
func (s *livingShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/replace":
		s.replace()
	case "/crash":
		s.crash()
	}
	s.Lock()
	down := s.down
	s.Unlock()
	if down {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	fmt.Fprint(w, "hello")
}

// serveAPI adds the Service to a Kubernetes API.
func (s *livingShop) serveAPI(mux *http.ServeMux) {
	service := kubetest.Service("web", func(is *corev1.ServiceSpec) {
		is.ClusterIP, is.ClusterIPs, is.Ports[0].Port = "127.0.0.1", []string{"127.0.0.1"}, s.port
	})
	service.Namespace, service.UID, service.ResourceVersion = "living", "service", "1"
	service.Annotations = map[string]string{"lapse/guard": "on"}
	mux.HandleFunc("GET /api/v1/namespaces/living/services/web", func(w http.ResponseWriter, _ *http.Request) { kubetest.Answer(w, 200, service) })
	mux.HandleFunc("GET /api/v1/namespaces/living/pods", s.serveList("pods", "v1", "PodList", func() any { return s.pods }))
	mux.HandleFunc("GET /apis/discovery.k8s.io/v1/namespaces/living/endpointslices",
		s.serveList("endpointslices", "discovery.k8s.io/v1", "EndpointSliceList", func() any { return []discoveryv1.EndpointSlice{s.slice} }))
	mux.HandleFunc("GET /api/v1/namespaces/living/services", s.serveList("services", "v1", "ServiceList", func() any { return []corev1.Service{service} }))
	for _, resource := range []string{"apps/v1/namespaces/living/deployments", "apps/v1/namespaces/living/replicasets", "apps/v1/namespaces/living/statefulsets", "apps/v1/namespaces/living/daemonsets", "policy/v1/namespaces/living/poddisruptionbudgets"} {
		mux.HandleFunc("GET /apis/"+resource, func(w http.ResponseWriter, _ *http.Request) {
			kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "you may not")
		})
	}
	mux.HandleFunc("POST /api/v1/namespaces/living/events", s.serveCreateEvent)
	mux.HandleFunc("GET /api/v1/namespaces/living/events", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "you may not")
	})
}

// serveCreateEvent keeps an Event.
func (s *livingShop) serveCreateEvent(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(err)
	}
	event := object.(*corev1.Event)
	s.Lock()
	s.told = append(s.told, event)
	s.Unlock()
	kubetest.Answer(w, 201, event)
}

// serveList lists a resource, or watches it.
func (s *livingShop) serveList(resource, version, kind string, items func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("watch") == "true" {
			s.ServeWatch(w, r, resource)
			return
		}
		s.Lock()
		text, err := json.Marshal(map[string]any{
			"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": s.Version()}, "items": items(),
		})
		s.Unlock()
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	}
}
