package network

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// dns-path: requests fail because the name of the Service cannot be looked up. What goes to addresses is well.
//
//	svc by name  ok ok d d d d d ok ok
//	direct       ok ok ok ok ok ok ok      by address

var DNSPath = rule.Rule{
	Name:  "dns-path",
	Doc:   "The target's name could not be looked up. Its addresses worked.",
	Needs: []rule.Need{rule.RequestsFailed},
	Test:  testDNSPath,
}

func testDNSPath(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	n := evidence.Count(w.Classes, timeline.DNS)
	// nothing is between: a query without an answer is a look-up that failed
	if asked(v.Traffic.Target(w).URL) != "" && v.Traffic.Target(w).Service == "" {
		n += evidence.Count(w.Classes, timeline.TimeoutResponse, timeline.Refused, timeline.Unreachable,
			timeline.NoSlot)
	}
	if n == 0 {
		return rule.No("every look-up was answered")
	}
	if gone := v.Services.Deleted(w); gone != nil {
		return rule.No(fmt.Sprintf("Service %s was deleted, and its name with it", gone.Object.Name))
	}
	if v.Traffic.Target(w).Turns && evidence.EmptyNear(v.Services, w) != nil {
		return rule.No("no endpoint of the headless Service was ready, so its name had no address")
	}
	name := lookedUp(v.Traffic.Target(w).URL)
	f := rule.Finding{
		Text: fmt.Sprintf("%s of %s failed %s", quantity.Count(n, "look-up"), name, evidence.Lasted(w)),
		Fix: fmt.Sprintf("look at the cluster's DNS server %s: run ≥ 2 replicas of it on different nodes, with "+
			"lameduck when they end, or a DNS cache on each node",
			quantity.Between(v.Run, w.Span())),
		For: []evidence.Sign{evidence.Watched.Target(w.Target, &w.Start, "look-ups of "+name+" began to fail"+
			firstText(w))},
	}
	if server := asked(v.Traffic.Target(w).URL); server != "" {
		did := "the note says what it answered"
		if w.Classes[timeline.DNS.String()] == 0 {
			did = "it did not answer, or packets to it or from it were lost"
		}
		f.Fix = fmt.Sprintf("look at the DNS server %s %s: %s", server, quantity.Between(v.Run, w.Span()), did)
	} else if v.Services.Outside(w) != "" {
		f.Fix = fmt.Sprintf("look at the name server that %s asks for %s %s, and at who publishes that name: it need "+
			"not be the cluster's", v.Traffic.From(w), name, quantity.Between(v.Run, w.Span()))
	}
	byAddress(v, w, &f)
	byLookUp(v, w, name, &f)
	if nodes := v.Traffic.AnsweredFrom(w); len(nodes) > 0 {
		f.Fix = fmt.Sprintf("look at the way from %s to the cluster's DNS server %s: the name was looked up from %s",
			v.Traffic.From(w), quantity.Between(v.Run, w.Span()), quantity.Names(nodes))
		if went := v.Traffic.WentOnBeside(w); went != nil {
			f.For = append(f.For, evidence.Measured.Target(went.Name, nil, "requests from "+v.Traffic.From(w)+
				" that needed no look-up were answered"))
		} else {
			f.Oppose(evidence.Measured.Doubt(fmt.Sprintf("requests from %s, which look up the same name, were "+
				"answered meanwhile: the DNS server was well", quantity.Names(nodes))))
		}
	}
	f.ExplainsAtMost(w, n)
	return f
}

// byLookUp asks the DNS servers themselves, where the run has looked the name up there: a second and independent
// sign. Were they all well, then what leads to them was not.
func byLookUp(v *evidence.Evidence, w *model.Window, name string, f *rule.Finding) {
	var well, failed []string
	for _, t := range v.Traffic.Targets {
		if t.Kind != timeline.Direct || asked(t.URL) == "" || lookedUp(t.URL) != strings.TrimSuffix(name, ".") ||
			t.Source != v.Traffic.Target(w).Source {
			continue
		}
		if trouble := v.Traffic.OutageNear(t.Name, w.Span()); trouble != nil && trouble.Length.Max > w.Length.Min/10 {
			failed = append(failed, t.Name)
		} else if t.OK > 0 {
			well = append(well, t.Name)
		}
	}
	slices.Sort(well)
	slices.Sort(failed)
	switch {
	case len(failed) > 0:
		f.For = append(f.For, evidence.Measured.Target(failed[0], nil, fmt.Sprintf("asked at %s, %s failed as well",
			itsAddress(failed), strings.Join(failed, " and "))))
	case len(well) > 0:
		f.Fix = fmt.Sprintf("look at the routes to the cluster's DNS Service %s: its servers answered at their own "+
			"addresses, and look-ups by way of the Service failed", quantity.Between(v.Run, w.Span()))
		f.For = append(f.For,
			evidence.Watched.Target(well[0], nil,
				fmt.Sprintf("asked at %s, %s answered: what leads to the servers was not well", itsAddress(well),
					strings.Join(well, " and "))))
	}
}

func itsAddress(names []string) string {
	if len(names) == 1 {
		return "its own address"
	}
	return "their own addresses"
}

func firstText(w *model.Window) string {
	for _, e := range w.Errors {
		if e.Class == timeline.DNS.String() {
			return ": " + e.Text
		}
	}
	return ""
}

// lookedUp returns the name in a URL: its host, or what a DNS server is asked for.
func lookedUp(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
	case asked(address) != "":
		return strings.Trim(u.Path, "/.")
	case u.Hostname() != "" && net.ParseIP(u.Hostname()) == nil:
		return u.Hostname()
	}
	return "the target's name"
}

// asked returns the DNS server that a target asks itself; empty if it is another target.
func asked(address string) string {
	if u, err := url.Parse(address); err == nil && u.Scheme == "dns" {
		return u.Host
	}
	return ""
}

// byAddress asks what needs no look-up. Was it well on other nodes, then the network was; did it fail as well, then
// more was wrong than DNS.
func byAddress(v *evidence.Evidence, w *model.Window, f *rule.Finding) {
	var well, near, failed []*model.Pod
	for _, p := range v.Addresses.HealthyOthers(w) {
		if v.Traffic.Targets[v.Addresses.DirectName(w, p)].Source != v.Traffic.Target(w).Source {
			continue // another node asked
		}
		switch trouble := v.Traffic.OutageNear(v.Addresses.DirectName(w, p), w.Span()); {
		case trouble != nil && trouble.Length.Max > w.Length.Min/10:
			failed = append(failed, p)
		case p.Node != "" && p.Node == v.Traffic.Target(w).Node:
			near = append(near, p)
		default:
			well = append(well, p)
		}
	}
	if len(failed) > 0 {
		f.Oppose(evidence.Watched.Doubt("what goes straight to the address of " + quantity.PodNames(failed) +
			" failed as well: more was wrong than look-ups"))
	}
	switch {
	case len(well) > 0:
		f.For = append(f.For, evidence.Measured.Target(v.Addresses.DirectName(w, well[0]), nil,
			"what goes straight to the address of "+quantity.PodNames(well)+" was answered"))
	case len(near) > 0:
		f.Lack(evidence.Measured.Doubt("only Pods on the prober's own node were asked by address: the network of " +
			"that node fits as well"))
	case len(failed) == 0:
		f.Lack(evidence.Measured.Doubt("nothing was sent from " + v.Traffic.From(w) +
			" to an address meanwhile: its " +
			"network fits as well"))
	}
}
