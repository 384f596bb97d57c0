package watcher

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/kube/kubetest"
)

// How a Service is reached changes with its type, addresses and ports, and with another one of its name.
func TestHowAServiceIsReached(t *testing.T) {
	same := kubetest.Service("web", func(*corev1.ServiceSpec) {})
	same.Spec.Selector, same.ResourceVersion = map[string]string{"app": "other"}, "7"
	plain := kubetest.Service("web", func(*corev1.ServiceSpec) {})
	if reached(&same) != reached(&plain) {
		t.Errorf("with another selector: %s, %s", reached(&plain), reached(&same))
	}
	for name, change := range map[string]func(*corev1.Service){
		"a port":         func(s *corev1.Service) { s.Spec.Ports[0].Port++ },
		"a port's name":  func(s *corev1.Service) { s.Spec.Ports[0].Name = "other" },
		"a protocol":     func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c") },
		"another port":   func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 1}) },
		"an address":     func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.9"} },
		"a type":         func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"another object": func(s *corev1.Service) { s.UID = "other" },
	} {
		other := kubetest.Service("web", func(*corev1.ServiceSpec) {})
		if change(&other); reached(&other) == reached(&plain) {
			t.Errorf("%s does not count: %s", name, reached(&other))
		}
	}
}

// Who annotates a Service, or takes that back, is heard at once. Annotations of others are left out.
func TestAnnotatedServicesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		annotated := func(name string, annotations map[string]string) *corev1.Service {
			s := kubetest.Service(name, func(*corev1.ServiceSpec) {})
			s.UID, s.Annotations = types.UID(name), annotations
			return &s
		}
		client := fake.NewSimpleClientset(annotated("web", map[string]string{"lapse/guard": "on", "lapse/path": "/healthz", "other": "x"}), annotated("api", nil))
		var said []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- FollowMarked(ctx, kubetest.Client(client), "shop", "guard", slog.New(slog.DiscardHandler), func(all []Marked) {
				var names []string
				for _, m := range all {
					names = append(names, m.Key()+m.Annotations["path"]+m.Annotations["other"])
				}
				said = append(said, strings.Join(names, " "))
			})
		}()
		expect := func(what, want string) {
			t.Helper()
			if synctest.Wait(); len(said) == 0 || said[len(said)-1] != want {
				t.Errorf("%s: %q, want %q", what, said, want)
			}
		}
		change := func(s *corev1.Service) {
			t.Helper()
			if _, err := client.CoreV1().Services("shop").Update(ctx, s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		expect("at first", "shop/web/healthz")
		change(annotated("api", map[string]string{"lapse/guard": "on"}))
		expect("another", "shop/api shop/web/healthz")
		change(annotated("web", map[string]string{"lapse/guard": "on", "lapse/path": "/"}))
		expect("changed", "shop/api shop/web/")
		change(annotated("web", map[string]string{"lapse/guard": "off"}))
		expect("off", "shop/api")
		if err := client.CoreV1().Services("shop").Delete(ctx, "api", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("deleted", "")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
