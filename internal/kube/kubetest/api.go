package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubeconfig returns a kubeconfig for an API server at a URL, with the namespace shop.
func Kubeconfig(server string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {token: test}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: shop}}]
`, server)
}

// Answer replies with an object, as an API server does.
func Answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may have gone
}

// Refuse replies with a Status.
func Refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	Answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: code,
	})
}

// Service returns a Service of the namespace shop that selects app=NAME, with what change makes of its spec.
func Service(name string, change func(*corev1.ServiceSpec)) corev1.Service {
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

// Ready returns the conditions of an endpoint whose Pod is ready or not, and terminating or not.
func Ready(ready, terminating bool) discoveryv1.EndpointConditions {
	serving := ready || terminating
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

// Watched keeps the changes of an API's objects for its watchers. The zero value is ready to use.
type Watched struct {
	sync.Mutex          // of the objects, too
	Changes    []Change // the nth has version n+1

	grown chan struct{} // closed at the next change; nil: nobody waits
}

// A Change is one event of a watch.
type Change struct {
	Resource string `json:"-"`
	Type     string `json:"type"`
	Object   any    `json:"object"`
}

// Version returns the present version. The caller holds the mutex.
func (l *Watched) Version() string { return strconv.Itoa(len(l.Changes)) }

// Next returns the version that the next change will have. The caller holds the mutex.
func (l *Watched) Next() string { return strconv.Itoa(len(l.Changes) + 1) }

// Add sends a change to the watchers. The caller holds the mutex.
func (l *Watched) Add(c Change) {
	l.Changes = append(l.Changes, c)
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// since returns the changes after the first n, and a channel that is closed at the next one.
func (l *Watched) since(n int) (news []Change, grown <-chan struct{}) {
	l.Lock()
	defer l.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.Changes[n:], l.grown
}

// ServeWatch answers a watch of a resource: it sends the changes after the version that the request names, until the
// client has gone.
func (l *Watched) ServeWatch(w http.ResponseWriter, r *http.Request, resource string) {
	from, err := strconv.Atoi(r.FormValue("resourceVersion"))
	if err != nil {
		Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "no version")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for encoder := json.NewEncoder(w); ; {
		news, grown := l.since(from)
		for _, c := range news {
			if from++; c.Resource == resource {
				_ = encoder.Encode(c) // the client may have gone
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
