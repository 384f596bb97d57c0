// Package causes explains windows. Each rule knows one way in which a window comes about; it reads the [Input] and says what speaks for it.
package causes

import (
	"lapse/correlate/model"
)

// A rule knows one way a window can come about. It speaks only when the window's onset bracket
// overlaps what it holds responsible, and then returns a cause with evidence and a fix; else it
// returns nil and, for whoever reads an unexplained window, why it kept silent.
type rule struct {
	name  string
	doc   string // one sentence, for the reference
	judge func(*index, *model.Window) (cause *model.Cause, silent string)
}

// rules lists every rule. Where two are equally confident the upper one is named first.
var rules = []rule{
	{"prober-fault", "The prober itself stood still or failed: nothing is known about the Service.", proberFault},
	{"no-ready-endpoint", "The Service had no endpoint that was ready, or terminating and still serving.", noReadyEndpoint},
	{"route-outlives-pod", "A Pod stopped before the prober's node stopped routing to it.", routeOutlivesPod},
	{"pinned-connection", "Persistent connections were cut when the Pod they were pinned to ended.", pinnedConnection},
}

// A RuleInfo names a rule and says in one sentence what it holds responsible.
type RuleInfo struct{ Name, Doc string }

// Rules lists the rules that can name a cause, and what is said where none does.
func Rules() []RuleInfo {
	var infos []RuleInfo
	for _, r := range rules {
		infos = append(infos, RuleInfo{r.name, r.doc})
	}
	return append(infos, RuleInfo{"unexplained", "No rule fits: what changed about the time is listed, and why each rule kept silent."})
}
