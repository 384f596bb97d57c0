package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/kube"
	"lapse/timeline"
)

// A Marked is a Service whose owner has annotated it for Lapse.
type Marked struct {
	Namespace, Name string
	// Annotations are those of Lapse, without their prefix.
	Annotations map[string]string
	// Reached changes with all that says how the Service is reached: its type, addresses and ports, and that it is
	// another one of the same name.
	Reached string
}

// Key returns NAMESPACE/NAME.
func (m Marked) Key() string { return m.Namespace + "/" + m.Name }

// annotationPrefix is that of the annotations by which the owner of a Service tells Lapse what to do.
const annotationPrefix = "lapse/"

// FollowMarked calls changed with all Services that have the annotation lapse/NAME, unless it is "off", at first and
// after each change, until ctx ends. They are those of a namespace, or of all if it is empty, in the order of their
// names. The error is a missing right.
func FollowMarked(
	ctx context.Context, client kube.Client, namespace, name string, log *slog.Logger, changed func([]Marked),
) error {
	found := map[types.UID]Marked{}
	nothing := func(timeline.Fact) {}
	w := &watcher{Config: Config{Client: client, Clock: timeline.StartClock(), Sink: nothing, Logger: log}, log: log}
	services := &reflector[*corev1.Service]{
		kind:     "Service",
		resource: "services",
		source:   from(client.Services(namespace)),
		in:       namespace,
		wanted: func(s *corev1.Service) bool {
			value, has := s.Annotations[annotationPrefix+name]
			return has && value != "off"
		},
		change: func(old, new *corev1.Service, _ origin) []timeline.Event {
			if new == nil {
				delete(found, old.UID)
			} else {
				found[new.UID] = marked(new)
			}
			return nil
		},
		flush: func(origin) []timeline.Event {
			changed(slices.SortedFunc(maps.Values(found), func(a, b Marked) int {
				return strings.Compare(a.Key(), b.Key())
			}))
			return nil
		},
		w: w,
	}
	return services.run(ctx)
}

func marked(s *corev1.Service) Marked {
	m := Marked{Namespace: s.Namespace, Name: s.Name, Annotations: map[string]string{}, Reached: reached(s)}
	for name, value := range s.Annotations {
		if ours, ok := strings.CutPrefix(name, annotationPrefix); ok {
			m.Annotations[ours] = value
		}
	}
	return m
}

func reached(s *corev1.Service) string {
	var all strings.Builder
	fmt.Fprintf(&all, "%s %s %q %q %q", s.UID, s.Spec.Type, s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.ExternalName)
	for _, p := range s.Spec.Ports {
		fmt.Fprintf(&all, " %q %s %d", p.Name, p.Protocol, p.Port)
		if p.AppProtocol != nil {
			fmt.Fprintf(&all, " %q", *p.AppProtocol)
		}
	}
	return all.String()
}
