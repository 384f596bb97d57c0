package wording

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file writes the command that makes Pods sleep before they are asked to end.

// safeName matches names of objects, containers and namespaces. What does not look like one goes into no command.
// https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
var safeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// safeSelector matches labels of a selector, as kubectl reads them: "app=web,release=1".
var safeSelector = regexp.MustCompile(`^[-A-Za-z0-9_./]+=[-A-Za-z0-9_.]+(,[-A-Za-z0-9_./]+=[-A-Za-z0-9_.]+)*$`)

// patchable are the workloads whose Pods have a template that can be patched.
var patchable = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true}

// patch returns the command that gives Pods a preStop sleep, or why there is none: it rests only on what was recorded.
func (s *scene) patch(sleep *model.Sleep) (command, whyNot string) {
	pod := s.podByUID(sleep.PodUID)
	if pod == nil {
		return "", "no patch: the Pod is not on record"
	}
	kind, name, _ := strings.Cut(s.workload(pod), "/")
	if !patchable[kind] {
		return "", "no patch: which workload " + pod.Name + " is of was not recorded"
	}
	template := s.template(pod)
	if template == nil {
		return "", "no patch: the template of " + pod.Name + " was not recorded"
	}
	var serving []timeline.Container
	var names []string
	for _, c := range template.Containers {
		if !c.Sidecar {
			serving, names = append(serving, c), append(names, c.Name)
		}
	}
	switch {
	case len(serving) != 1:
		all := strings.Join(names, ", ")
		return "", fmt.Sprintf("no patch: which of the containers %s serves was not recorded", all)
	case serving[0].PreStop != nil && serving[0].PreStop.Kind != "sleep":
		return "", fmt.Sprintf("no patch: container %s has a preStop hook (%s), which would have to sleep itself",
			serving[0].Name, serving[0].PreStop.Kind)
	case !safeName.MatchString(pod.Namespace), !safeName.MatchString(name), !safeName.MatchString(serving[0].Name):
		return "", "no patch: a name is unusual"
	}
	grace := ""
	if total := time.Duration(sleep.Seconds()) * time.Second; template.Grace <= total {
		grace = fmt.Sprintf(`"terminationGracePeriodSeconds":%d,`, int((total+template.Grace)/time.Second))
	}
	return fmt.Sprintf("kubectl -n %s patch %s %s -p '{\"spec\":{\"template\":{\"spec\":{%s\"containers\":[\n"+
		"  {\"name\":\"%s\",\"lifecycle\":{\"preStop\":{\"sleep\":{\"seconds\":%d}}}}]}}}}'",
		pod.Namespace, strings.ToLower(kind), name, grace, serving[0].Name, sleep.Seconds()), ""
}
