package wording

import (
	"fmt"

	"lapse/correlate/model"
)

// Pending says which Pods had no node when the run ended; "" if all had one. The Service has fewer than it is to have.
func Pending(tl *model.Timeline) string {
	var names []string
	for i := range tl.Pods {
		p := &tl.Pods[i]
		if p.Created != nil && p.Node == "" && p.IP == "" && p.Started == nil && p.Deleted == nil && !p.Left() {
			names = append(names, p.Name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("Pod %s is still pending: no node has taken it", names[0])
	}
	return fmt.Sprintf("%d Pods are still pending: no node has taken them", len(names))
}
