package rules

import (
	"fmt"
	"strings"

	"lapse/internal/preflight/service"
)

var drainRefuses = Rule{
	ID:        "LP16",
	Name:      "drain-refuses",
	Doc:       "kubectl drain refuses these Pods or loses their data, or an autoscaler will not move them.",
	Needs:     []service.Fact{service.TemplatesFact},
	AboutPods: true,
	Check: func(s *service.State) (found []Finding) {
		for _, t := range s.Running() {
			if t.Owner == "" {
				found = append(found, bare(&t))
			}
			if names := emptyDirs(&t); len(names) > 0 && t.Owner != "DaemonSet" {
				found = append(found, losesData(&t, names))
			}
			for _, a := range pinning {
				if t.Meta.Annotations[a.key] == a.value {
					found = append(found, a.keeps(&t))
				}
			}
		}
		return found
	},
}

// bare returns a finding about a Pod without a controller.
func bare(t *service.Template) Finding {
	return Finding{
		Severity:   WillBlock,
		Prediction: "kubectl drain refuses this Pod unless --force is given, and then nothing makes a new one",
		Evidence:   []service.Evidence{fact(t.Object, "metadata.ownerReferences", "no controller")},
		Fix:        "make it part of a Deployment",
	}
}

// losesData returns a finding about volumes that end with their Pod.
func losesData(t *service.Template, volumes []string) Finding {
	return Finding{
		Severity: WillBlock,
		Prediction: "kubectl drain refuses these Pods unless --delete-emptydir-data is given, " +
			"and then what is in there is lost",
		Evidence: []service.Evidence{t.At("volumes", "emptyDir: "+strings.Join(volumes, ", "))},
		Fix:      "drain with --delete-emptydir-data, if the data can be lost",
	}
}

// pinning lists the annotations that keep an autoscaler from removing a node.
var pinning = []annotation{
	{"karpenter.sh/do-not-disrupt", "true", "Karpenter"},
	{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false", "the cluster autoscaler"},
}

type annotation struct{ key, value, who string }

func (a annotation) keeps(t *service.Template) Finding {
	const waits = "%s does not remove a node while such a Pod is there (kubectl drain does)"
	return Finding{
		Severity:   WillBlock,
		Prediction: fmt.Sprintf(waits, a.who),
		Evidence:   []service.Evidence{fact(t.Object, "metadata.annotations["+a.key+"]", a.value)},
		Fix:        "take the annotation away for the time of the maintenance",
	}
}

func emptyDirs(t *service.Template) (names []string) {
	for _, v := range t.Spec.Volumes {
		if v.EmptyDir != nil {
			names = append(names, v.Name)
		}
	}
	return names
}
