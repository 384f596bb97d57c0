package verdict

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/kubectl"
	"lapse/timeline"
)

// kubectlEvicts is how `kubectl drain` says that the API did not evict a Pod.
// https://github.com/kubernetes/kubectl/blob/master/pkg/drain/drain.go
var kubectlEvicts = regexp.MustCompile(`error when evicting pods/"([^"]+)" -n "([^"]+)"`)

// budgetRefuses are the API's reasons that a PodDisruptionBudget causes: it allows no eviction, or there
// are two. https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/storage/eviction.go
var budgetRefuses = []string{"would violate the pod's disruption budget", "more than one PodDisruptionBudget"}

// evictions says whether evictions of the Service's Pods were refused for a PodDisruptionBudget, as predicted. Only the
// wrapped command's output shows it: the API records no event of a refusal.
func (s *scorer) evictions() (outcome model.PredictionOutcome, why string) {
	refused, times, captured := map[string]bool{}, 0, false
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == timeline.CommandOutput {
			captured = true
			if pod := s.refusedPod(e.Detail); pod != "" {
				refused[pod] = true
				times++
			}
		}
	}
	if times > 0 {
		return model.Confirmed, fmt.Sprintf("evictions of %s were refused for it (%s)",
			quantity.Count(len(refused), "Pod"), quantity.Count(times, "time"))
	}
	for _, p := range s.pods {
		if p.Ending == nil || p.Ending.By != model.ByEviction {
			continue
		}
		if !captured || !s.drains() {
			return model.NotTested, "a Pod was evicted; whether that was refused before is not known: only the " +
				"output of a wrapped `kubectl drain` shows it"
		}
		return model.Refuted, "a Pod was evicted, and the command's output shows no refused eviction"
	}
	return model.NotTested, "no Pod was seen to be evicted"
}

// refusedPod returns the Service's Pod that a line of output says was not evicted because of a PodDisruptionBudget, or
// "".
func (s *scorer) refusedPod(line string) string {
	found := kubectlEvicts.FindStringSubmatch(line)
	if found == nil || !refusedByBudget(line) {
		return ""
	}
	for _, p := range s.pods {
		if p.Name == found[1] && p.Namespace == found[2] {
			return p.UID
		}
	}
	return ""
}

func refusedByBudget(line string) bool {
	return slices.ContainsFunc(budgetRefuses, func(reason string) bool { return strings.Contains(line, reason) })
}

// drains reports whether the wrapped command is `kubectl drain`, whose output says what was refused.
func (s *scorer) drains() bool {
	if s.tl.Run.Command == nil {
		return false
	}
	does, err := kubectl.Read(s.tl.Run.Command.Args)
	return err == nil && does.Verb == "drain"
}
