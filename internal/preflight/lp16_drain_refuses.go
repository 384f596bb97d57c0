package preflight

import (
	"fmt"
	"strings"
)

var drainRefuses = Rule{
	ID: "LP16", Name: "drain-refuses", Needs: []Fact{TemplatesFact},
	Doc: "kubectl drain refuses these Pods or loses their data, or an autoscaler will not move them.",
	Check: func(s *State) (found []Finding) {
		for _, t := range s.running() {
			if t.owner == "" {
				found = append(found, Finding{
					Severity: WillBlock, Prediction: "kubectl drain refuses this Pod unless --force is given, and then nothing makes a new one",
					Evidence: []Evidence{{t.object, "metadata.ownerReferences", "no controller"}}, Fix: "make it part of a Deployment",
				})
			}
			if names := emptyDirs(&t); len(names) > 0 && t.owner != "DaemonSet" {
				found = append(found, Finding{
					Severity: WillBlock, Prediction: "kubectl drain refuses these Pods unless --delete-emptydir-data is given, and then what is in there is lost",
					Evidence: []Evidence{t.at("volumes", "emptyDir: "+strings.Join(names, ", "))}, Fix: "drain with --delete-emptydir-data, if the data can be lost",
				})
			}
			for _, a := range []struct{ key, value, who string }{
				{"karpenter.sh/do-not-disrupt", "true", "Karpenter"},
				{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false", "the cluster autoscaler"},
			} {
				if t.meta.Annotations[a.key] == a.value {
					found = append(found, Finding{
						Severity: WillBlock, Prediction: fmt.Sprintf("%s does not remove a node while such a Pod is there (kubectl drain does)", a.who),
						Evidence: []Evidence{{t.object, "metadata.annotations[" + a.key + "]", a.value}}, Fix: "take the annotation away for the time of the maintenance",
					})
				}
			}
		}
		return found
	},
}

func emptyDirs(t *template) (names []string) {
	for _, v := range t.spec.Volumes {
		if v.EmptyDir != nil {
			names = append(names, v.Name)
		}
	}
	return names
}
