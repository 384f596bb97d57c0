package network

import (
	"fmt"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// family-broken: of a dual-stack Service one address family fails, and the other one does not.
//
//	svc ipv4      ok ok ok ok ok ok
//	svc ipv6      ok t  t  t  t  ok
//	direct ipv6   ok t  t  t  t  ok       the network of that family, or the servers
//	direct ipv6   ok ok ok ok ok ok       or else the node's routes of that family

var FamilyBroken = rule.Rule{
	Name:  "family-broken",
	Doc:   "One address family of a dual-stack Service failed, and the other was answered.",
	Needs: []rule.Need{rule.RequestsFailed},
	Only: func(c *rule.Case) bool {
		route := c.Evidence.Traffic.Target(c.Window).Route
		return route == "ipv4" || route == "ipv6"
	},
	Test: testFamilyBroken,
}

func testFamilyBroken(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	own := v.Traffic.Target(w)
	other := otherFamily(v, own)
	switch {
	case other == nil:
		return rule.No("the other address family was not asked")
	case w.Share < evidence.NearlyAll:
		return rule.No("requests over " + familyText(own) + " were answered meanwhile")
	case !v.Traffic.AnsweredDuring(other, w):
		return rule.No("requests over " + familyText(other) + " failed as well")
	case evidence.EmptyNear(v.Services, w) != nil:
		return rule.No("no endpoint of this address family was ready")
	}
	f := rule.Finding{
		Text: fmt.Sprintf("every request over %s failed %s, and those over %s were answered", familyText(own),
			evidence.Lasted(w), familyText(other)),
		For: []evidence.Sign{
			evidence.Watched.Target(w.Target, &w.Start, "requests over "+familyText(own)+" began to fail: "+
				quantity.ClassCounts(w.Classes)),
			evidence.Watched.Target(other.Name, nil, "requests over "+familyText(other)+" were answered meanwhile"),
		},
	}
	ownAddressesOf(v, w, &f)
	return f
}

// ownAddressesOf adds what the Pods answered at their own addresses of the window's family.
func ownAddressesOf(v *evidence.Evidence, w *model.Window, f *rule.Finding) {
	family := familyText(v.Traffic.Target(w))
	var well, failed []*model.Pod
	for _, p := range v.Addresses.HealthyOthers(w) {
		if v.Traffic.OutageNear(v.Addresses.DirectName(w, p), w.Span()) != nil {
			failed = append(failed, p)
		} else {
			well = append(well, p)
		}
	}
	switch {
	case len(failed) == 0 && len(well) == 0:
		f.Fix = fmt.Sprintf("look at the network, the firewall and kube-proxy of %s on %s, where requests failed %s",
			family, v.Services.Router(w), evidence.Lasted(w))
		f.Lack(evidence.Measured.Doubt("no Pod's own " + family + " address was asked"))
	case len(failed) == 0:
		f.Text += fmt.Sprintf("; the Pods answered at their own %s addresses, so the routes of %s did not", family,
			v.Services.Router(w))
		f.Fix = fmt.Sprintf("look at kube-proxy and the firewall of %s on %s, where requests failed %s", family,
			v.Services.Router(w), evidence.Lasted(w))
		f.For = append(f.For, evidence.Measured.Target(v.Addresses.DirectName(w, well[0]), nil,
			quantity.PodNames(well)+" went on answering at their own "+family+" addresses"))
	case len(well) == 0:
		f.Text += fmt.Sprintf("; the Pods did not answer at their own %s addresses either", family)
		f.Fix = fmt.Sprintf(
			"look at the network of %s between nodes, and whether the servers listen there: requests failed %s",
			family, evidence.Lasted(w))
		f.For = append(f.For, evidence.Measured.Target(v.Addresses.DirectName(w, failed[0]), nil,
			quantity.PodNames(failed)+" failed at their own "+family+" addresses"))
	default:
		f.Fix = fmt.Sprintf("look at the network of %s between nodes: requests failed %s", family, evidence.Lasted(w))
		f.Oppose(evidence.Close.Doubt(fmt.Sprintf("%s went on answering at their own %s addresses, and %s did not",
			quantity.PodNames(well), family, quantity.PodNames(failed))))
	}
}

// otherFamily returns the target that asks the same of a Service's other address family, from the same place; nil if
// there is none.
func otherFamily(v *evidence.Evidence, own *model.Target) *model.Target {
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if (t.Route == "ipv4" || t.Route == "ipv6") && t.Route != own.Route && t.Kind == timeline.New &&
			t.Service == own.Service && t.PortName == own.PortName && t.Source == own.Source {
			return t
		}
	}
	return nil
}

// familyText returns the address family that a target asks by itself, as people write it: IPv6.
func familyText(t *model.Target) string { return strings.Replace(t.Route, "ip", "IP", 1) }
