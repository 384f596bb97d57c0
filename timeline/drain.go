package timeline

import "strings"

// DrainTaints are the taints that a node gets when its Pods are about to be evicted, and who sets each. Autoscalers do
// not cordon the node.
var DrainTaints = []struct{ Key, Actor string }{
	{"karpenter.sh/disrupted", "Karpenter"},                  // before the replacement is launched
	{"karpenter.sh/disruption", "Karpenter"},                 // until 1.0
	{"ToBeDeletedByClusterAutoscaler", "cluster-autoscaler"}, // it evicts 5 s later
	{"cloud.google.com/impending-node-termination", "GKE"},
	{"aws-node-termination-handler/spot-itn", "aws-node-termination-handler"},
	{"aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler"},
}

// DrainMark returns what marks a node as being drained, if an event sets or removes that: "" for a cordon, else the key
// of one of [DrainTaints]. A node may have several.
func (e Event) DrainMark() (mark string, set, ok bool) {
	switch e.Kind {
	case NodeSchedulable:
		return "", e.To == "false", true
	case NodeTaint:
		mark, _, _ = strings.Cut(e.Detail, ":")
		mark, _, _ = strings.Cut(mark, "=")
		for _, t := range DrainTaints {
			if t.Key == mark {
				return mark, e.To == "present", true
			}
		}
	}
	return "", false, false
}
