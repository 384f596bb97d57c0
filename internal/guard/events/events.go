// Package events writes Events of Kubernetes, so that `kubectl describe` shows what became of a Service's requests.
//
// They are written through the core API, which keeps them where events.k8s.io does, with the same fields: up to
// Kubernetes 1.34 the role "admin" has the right to create Events only there, and whoever has it may install a guard.
package events

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube"
	"lapse/timeline"
)

const (
	controller = "lapse/guard"
	action     = "Measure"
)

// NotMeasured is the reason of a warning that says less than any other.
const NotMeasured = "NotMeasured"

// mostBytes is the most that the API takes as the text of an Event.
const mostBytes = 1024

// An Event is what is said of a run, on one object.
type Event struct {
	On      timeline.Object // a Service, Deployment, StatefulSet or DaemonSet
	Related timeline.Object // of a workload the Service; else optional
	Warning bool
	Reason  string // in CamelCase, such as RequestsDropped
	Text    string // its end is cut if it is too long for the API
	Run     string // the run's ID; it ends the text

	Began, Ended time.Time // of the disruption
	By           string    // the namespace of the guard: in it, one of two speaks, and they may take turns
}

// What an Event says of its run, for other guards.
const (
	beganAnnotation = "lapse/began"
	endedAnnotation = "lapse/ended"
	byAnnotation    = "lapse/guard-namespace"
)

// Write creates Events. An object that is gone gets none; and so does one that has an Event of the same disruption from
// this guard's other Pod, which led before, unless that says less. others are the namespaces of further guards with
// Events on the objects. The error is of the first Event that was not written.
func Write(ctx context.Context, client kube.Client, at time.Time, events ...Event) (others []string, failed error) {
	for _, e := range events {
		by, err := e.write(ctx, client, at)
		if others = append(others, by...); err != nil && failed == nil {
			failed = fmt.Errorf("an Event on %s %s/%s: %w", e.On.Kind, e.On.Namespace, e.On.Name, err)
		}
	}
	slices.Sort(others)
	return slices.Compact(others), failed
}

// Refused reports whether an error of [Write] is the API server's answer, which would be the same again.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (e Event) write(ctx context.Context, client kube.Client, at time.Time) (others []string, _ error) {
	on, err := found(ctx, client, e.On)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	told, others, err := e.look(ctx, client, on)
	if told || err != nil {
		return others, err
	}
	event := &corev1.Event{
		// The name makes an Event unique, even if the client repeats a request that got no answer.
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.On.Namespace, Name: e.Run + "." + string(on.GetUID()),
			Annotations: map[string]string{
				beganAnnotation: stamp(e.Began), endedAnnotation: stamp(e.Ended), byAnnotation: e.By,
			},
		},
		EventTime: metav1.NewMicroTime(at),
		Type:      corev1.EventTypeNormal,
		Reason:    e.Reason, Message: e.message(), Action: action,
		ReportingController: controller, ReportingInstance: instance(),
		InvolvedObject: reference(e.On),
	}
	event.InvolvedObject.UID = on.GetUID() // or describe does not show it
	if e.Warning {
		event.Type = corev1.EventTypeWarning
	}
	if !e.Related.IsZero() {
		event.Related = new(reference(e.Related))
	}
	_, err = client.Events(e.On.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return others, err
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// look reports whether an Event says as much of the same disruption of the Service as e, and in which other namespaces
// guards have written Events of that Service on the object. Who may not list Events sees none.
func (e Event) look(ctx context.Context, client kube.Client, on metav1.Object) (told bool, others []string, _ error) {
	list, err := client.Events(e.On.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(on.GetUID()),
	})
	switch {
	case apierrors.IsForbidden(err):
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	for _, is := range list.Items {
		by, ok := is.Annotations[byAnnotation]
		switch {
		case !ok || is.InvolvedObject.UID != on.GetUID() || is.ReportingController != controller ||
			!e.sameService(is):
		case by != e.By:
			others = append(others, by)
		case timeline.Overlap(e.Began, e.Ended, stampOf(is, beganAnnotation), stampOf(is, endedAnnotation)):
			worse := is.Type != corev1.EventTypeWarning || is.Reason == NotMeasured && e.Reason != NotMeasured
			told = told || !e.Warning || !worse
		}
	}
	return told, others, nil
}

// sameService reports whether an Event on the same object is of the same Service: several may select the Pods of one
// workload.
func (e Event) sameService(is corev1.Event) bool {
	return e.On.Kind == "Service" || is.Related != nil && *is.Related == reference(e.Related)
}

// stampOf returns an instant of an Event.
func stampOf(e corev1.Event, annotation string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, e.Annotations[annotation]) // that of another kind overlaps with nothing
	return t
}

// found reads an object.
func found(ctx context.Context, client kube.Client, o timeline.Object) (metav1.Object, error) {
	switch o.Kind {
	case "Service":
		return client.Services(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case "Deployment":
		return client.Deployments(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case "StatefulSet":
		return client.StatefulSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case "DaemonSet":
		return client.DaemonSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	}
	return nil, fmt.Errorf("no Events are written on a %s", o.Kind)
}

func reference(o timeline.Object) corev1.ObjectReference {
	version := appsv1.SchemeGroupVersion
	if o.Kind == "Service" || o.Kind == "Node" {
		version = corev1.SchemeGroupVersion
	}
	return corev1.ObjectReference{APIVersion: version.String(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// instance returns the name of the guard's Pod.
func instance() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 128 { // the API takes no more
		return "guard"
	}
	return name
}

// message returns the text and the run. They take no more than the API does.
func (e Event) message() string {
	run := "; run " + e.Run
	text, most := e.Text, mostBytes-len(run)
	if len(text) > most {
		const more = "…"
		end := most - len(more)
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + more
	}
	return text + run
}
