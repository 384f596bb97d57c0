package evidence

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// A trouble is a Pod that failed at its own address though it was ready and not ending.
type trouble struct {
	pod    *model.Pod
	window *model.Window
}

// TroubledIn returns the ready Pods that failed at their own addresses during the window.
func TroubledIn(troubled []trouble, w *model.Window) (all []trouble) {
	for _, t := range troubled {
		if t.window.Span().Overlaps(w.Span()) {
			all = append(all, t)
		}
	}
	return all
}

// AlsoTroubled returns a doubt for each of them: then more was wrong than stale routes.
func AlsoTroubled(troubled []trouble, w *model.Window) (doubts []Sign) {
	for _, t := range TroubledIn(troubled, w) {
		doubts = append(doubts,
			Close.Doubt(fmt.Sprintf("%s failed at its own address as well (%s), though it was ready", t.pod.Name,
				quantity.ClassCounts(t.window.Classes))))
	}
	return doubts
}
