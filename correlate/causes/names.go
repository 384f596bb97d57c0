package causes

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
)

// This file is how sentences name Pods and count.

// mostNamed is how many Pods a sentence names.
const mostNamed = 6

// namedOf lists names: "a", "a, b and c", "a, b and 4 more".
func namedOf(names []string) string {
	const most = 3
	if len(names) > most {
		names = append(names[:most-1:most-1], fmt.Sprintf("%d more", len(names)-most+1))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// namedPods names Pods: "a", "a, b and c", "a, b and 4 more".
func namedPods(pods []*model.Pod) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	return namedOf(names)
}

// namedStops names the Pods that stopped.
func namedStops(stops []*podStop) string {
	pods := make([]*model.Pod, len(stops))
	for i, s := range stops {
		pods[i] = s.pod
	}
	return namedPods(pods)
}

// was is the verb of so many.
func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// number writes a small number within a sentence.
func number(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

// every is all of n replicas.
func every(n int) string {
	if n == 2 {
		return "both replicas"
	}
	return fmt.Sprintf("all %d replicas", n)
}
