package preflight

import (
	"fmt"
	"slices"
	"strings"

	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/service"
)

// IgnoreAnnotation accepts findings. On a workload, its template or a Pod it accepts the findings of that object, on a
// Service all of that Service. Its value has a line, or a part up to a semicolon, for each reason:
//
//	lapse.dev/ignore: "LP05, LP09: the server drains for 8 s after SIGTERM"
const IgnoreAnnotation = "lapse.dev/ignore"

// Ignored is the annotation, for those who read manifests.
var Ignored = manifest.Annotation{Name: IgnoreAnnotation, Check: func(value string) []error {
	_, wrong := ignored(value)
	return wrong
}}

// ignored reads the annotation's value.
func ignored(value string) (all []Acceptance, wrong []error) {
	const noReason = "%s has no reason for %s: write \"%s: why it is accepted\""
	for entry := range strings.SplitSeq(strings.ReplaceAll(value, ";", "\n"), "\n") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		names, reason, _ := strings.Cut(entry, ":")
		if reason = strings.TrimSpace(reason); reason == "" {
			wrong = append(wrong, fmt.Errorf(noReason, IgnoreAnnotation, names, names))
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			id := ruleID(strings.TrimSpace(name))
			if id == "" {
				wrong = append(wrong, fmt.Errorf("%s: %w", IgnoreAnnotation, noSuchRule(strings.TrimSpace(name))))
				continue
			}
			all = append(all, Acceptance{Rule: id, Reason: reason})
		}
	}
	return all, wrong
}

// acceptAnnotated accepts the findings that annotations of the objects accept.
func (r *Result) acceptAnnotated(s *service.State) {
	accept := func(object string, annotations map[string]string) {
		all, wrong := ignored(annotations[IgnoreAnnotation])
		for _, err := range wrong {
			if s.Knows(service.EndpointsFact) { // of manifests it is a problem with a line
				r.Notes = append(r.Notes, strings.TrimPrefix(object+": ", ": ")+err.Error())
			}
		}
		for _, a := range all {
			a.Object = object
			r.accept(a)
		}
	}
	accept("", s.Service.Annotations)
	for _, w := range slices.Concat(s.Workloads, s.Others) {
		accept(w.Object(), w.Meta.Annotations)
		accept(w.Object(), w.Template.Annotations)
	}
	for i := range s.Pods {
		accept("Pod/"+s.Pods[i].Name, s.Pods[i].Annotations)
	}
}
