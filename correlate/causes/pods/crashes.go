// Package pods explains windows by Pods that failed, or ended, while requests were routed to them.
package pods

import (
	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// routedCrashes returns the window's crashes that satisfy is, if the Service had an endpoint. If it returns none,
// whyNot says why: there was no endpoint, or else none.
func routedCrashes(c *rule.Case, is func(crash) bool, none string) (all []crash, whyNot string) {
	for _, cr := range crashes(c.Evidence, c.Window) {
		if is(cr) {
			all = append(all, cr)
		}
	}
	if len(all) == 0 {
		return nil, none
	}
	if empty, _ := c.Addresses.EmptyIn(c.Window); empty != nil {
		return nil, "no endpoint was left that a request could have been routed to"
	}
	return all, ""
}

// crashed completes a finding that names crashes: what showed them, and how many failures they can have made.
func crashed(c *rule.Case, crashes []crash, f *rule.Finding) {
	v, w := c.Evidence, c.Window
	var accused []evidence.Suspect
	for _, cr := range crashes[:min(len(crashes), rule.MostNamed)] {
		f.For = append(f.For, cr.signs()...)
		switch {
		case cr.own != nil:
		case cr.never:
			f.Lack(evidence.Measured.Doubt(cr.pod.Name +
				" had not answered at its own address before: it may never " +
				"have served"))
			continue
		case failedAbout(v, w, cr.pod, cr.event.At):
			f.Lack(evidence.Measured.Doubt(cr.pod.Name + " failed at its own address only while its endpoint was " +
				"not ready: when it stopped is known from the watch, and any change about that time fits as well"))
			continue
		case v.Addresses.DirectName(w, cr.pod) != "":
			f.Oppose(evidence.Watched.Doubt(cr.pod.Name + " was not seen to fail at its own address: the container " +
				"that ended may not be the one that serves"))
			continue
		default:
			f.Lack(evidence.Measured.Doubt(cr.pod.Name + " has no direct target, so when it stopped is only known " +
				"from the watch: any change about that time fits as well"))
			continue
		}
		accused = append(accused, *cr.own)
	}
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+
		quantity.ClassCounts(w.Classes)))
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, accused)...)...)
	rule.MoreThanTheirShare(v, w, len(crashes), f)
	f.ExplainsAtMost(w, madeByCrashes(v, w, crashes))
}
