package quantity

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
)

// Names lists names: "a", "a, b and c", "a, b and 4 more".
func Names(names []string) string {
	const most = 3
	if len(names) > most {
		names = append(names[:most-1:most-1], fmt.Sprintf("%d more", len(names)-most+1))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// PodNames names Pods: "a", "a, b and c", "a, b and 4 more".
func PodNames(pods []*model.Pod) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	return Names(names)
}

// Was returns "was" or "were".
func Was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
