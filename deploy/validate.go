package deploy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/internal/hint"
)

const (
	longPrivate     = "headers, --hammer and --echo are %d bytes, and the agent takes %d"
	longPrivateHint = "give a long body less, or measure a URL from here"
	longSpec        = "the flags and the chosen Services are %d bytes, and the agent takes %d"
	longSpecHint    = "give a --ca-file with fewer certificates, choose fewer Services with --selector, " +
		"or measure a URL from here"
	badAvoided = "%q is no name of a node: names have lower case letters, digits, '-' and '.' only, " +
		"and begin and end with a letter or digit"
	badAvoidedHint = "name the nodes to keep off as `kubectl get nodes` does, as in --avoid-node node1,node3"
	badProberHint  = "name nodes as `kubectl get nodes` does, as in --from node1,node2"
)

// Validate returns an error for a configuration that the API server would refuse, or that would measure itself.
func (c Config) Validate() error {
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		return fmt.Errorf("run name %q: %s", c.Name, problems[0])
	}
	if len(c.Name) > maxName {
		return fmt.Errorf("run name %q: longer than %d characters", c.Name, maxName)
	}
	if c.Image == "" {
		return hint.Errorf("name one with --image", "no image to run in the cluster")
	}
	if len(c.Private) > maxValue {
		return hint.Errorf(longPrivateHint, longPrivate, len(c.Private), maxValue)
	}
	if len(c.Spec) > maxValue {
		return hint.Errorf(longSpecHint, longSpec, len(c.Spec), maxValue)
	}
	if err := CheckCPU(c.CPU); err != nil {
		return err
	}
	if err := CheckNodes(c.Probers); err != nil {
		return err
	}
	for _, node := range c.AvoidNodes {
		if len(validation.IsDNS1123Subdomain(node)) > 0 {
			return hint.Errorf(badAvoidedHint, badAvoided, node)
		}
	}
	id := c.identity()
	for _, selector := range c.Selectors {
		selectsUs := matches(selector, id.labels()) || c.hasProbers() && matches(selector, id.proberMeta().Labels)
		if len(selector) > 0 && selectsUs {
			return hint.Errorf("give the Service a selector that names its workload",
				"the Service's selector %s would also select Lapse's own Pod", labels.Set(selector))
		}
	}
	return nil
}

func matches(selector, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// CheckNodes returns an error if a node of --from cannot have its name.
func CheckNodes(names []string) error {
	for _, node := range names {
		if len(validation.IsDNS1123Subdomain(node)) > 0 {
			return hint.Errorf(badProberHint, "--from: %q is no name of a node", node)
		}
	}
	return nil
}

// CheckCPU returns an error if a run cannot request this amount of CPU. Empty is the default.
func CheckCPU(text string) error {
	if text == "" {
		return nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 || q.MilliValue() > mostCPU {
		return fmt.Errorf("cpu %q: must be an amount of CPU from 1m to %d cores", text, mostCPU/1000)
	}
	return nil
}

// mostCPU is more than any prober can use, in thousandths of a core.
const mostCPU = 64_000

// maxValue is how long [Config.Spec] and [Config.Private] may be. Linux takes 128 KiB for one environment variable.
const maxValue = 100 << 10
