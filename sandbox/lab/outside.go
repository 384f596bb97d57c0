package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outside is what stands before the nodes while a scenario is played.
type Outside struct {
	Balancer []string // flags of `sandbox lb up`; nil: none
	Ingress  []string // of `sandbox ingress up`
	Families string   // of `sandbox up`; "": any
}

func (o Outside) equal(other Outside) bool {
	return slices.Equal(o.Balancer, other.Balancer) &&
		slices.Equal(o.Ingress, other.Ingress) && o.Families == other.Families
}

// any reports whether anything is started for the scenario.
func (o Outside) any() bool { return o.Balancer != nil || o.Ingress != nil }

// variables returns the addresses that it gives names to.
func (o Outside) variables() (names []string) {
	if o.Balancer != nil {
		names = append(names, "lb", "lb6")
	}
	if o.Ingress != nil {
		names = append(names, "ingress", "ingress6")
	}
	return names
}

// outside reads the section of that name.
func (p *parser) outside(lines []line) (o Outside) {
	p.section = outsideSection
	for _, l := range lines {
		w := strings.Fields(l.text)
		switch {
		case w[0] == "lb":
			o.Balancer = append([]string{}, w[1:]...)
		case w[0] == "ingress":
			o.Ingress = append([]string{}, w[1:]...)
		case l.text == "families "+bothFamilies:
			o.Families = bothFamilies
		default:
			p.wrong(l.number, "%q: want `lb [FLAG…]`, `ingress [FLAG…]` or `families %s`", l.text, bothFamilies)
		}
	}
	return o
}

const bothFamilies = "ipv4,ipv6"

// fromOutside reports whether Lapse itself runs outside of the nodes.
func (s Scenario) fromOutside() bool {
	return !s.oneProber() && (s.onURL() || slices.Contains(strings.Split(s.from(), ","), "outside"))
}

// oneProber reports whether Lapse measures from one Pod, whose node $prober is.
func (s Scenario) oneProber() bool { return !s.onURL() && s.from() == "" }

func (s Scenario) onURL() bool {
	return slices.ContainsFunc(s.Targets, func(t string) bool { return strings.Contains(t, "://") })
}

// from returns the value of --from, "" if it is not given.
func (s Scenario) from() string {
	if i := slices.Index(s.Flags, "--from"); i >= 0 && i+1 < len(s.Flags) {
		return s.Flags[i+1]
	}
	return ""
}

// beginOutside starts what a scenario wants outside of the nodes, and waits until it leads to web.
func (p *play) beginOutside(ctx context.Context, o Outside) error {
	if o.Balancer != nil {
		if err := p.runSandbox(ctx, append([]string{"lb", "up"}, o.Balancer...)...); err != nil {
			return err
		}
		if err := p.untilBalanced(ctx); err != nil {
			return err
		}
		out, err := p.ask(ctx, "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
		if err != nil {
			return err
		}
		p.name("lb", strings.Fields(out))
	}
	if o.Ingress == nil {
		return nil
	}
	if err := p.runSandbox(ctx, append([]string{"ingress", "up"}, o.Ingress...)...); err != nil {
		return err
	}
	var status struct{ Addresses []string }
	err := p.outsideState("ingress.json", &status)
	p.name("ingress", status.Addresses)
	return err
}

// name sets a variable to an address of IPv4, and another one to that of IPv6.
func (p *play) name(variable string, addrs []string) {
	for _, addr := range addrs {
		if strings.Contains(addr, ":") {
			p.vars[variable+"6"] = addr
		} else {
			p.vars[variable] = addr
		}
	}
}

// untilBalanced waits until the load balancer has an address for web and calls every node healthy.
func (p *play) untilBalanced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		var status struct {
			Services []struct {
				Service   string
				Addresses []string
				Nodes     map[string]string
			}
		}
		err := p.outsideState("lb.json", &status)
		for _, s := range status.Services {
			healthy := 0
			for _, state := range s.Nodes {
				if state == "healthy" {
					healthy++
				}
			}
			if s.Service == p.namespace+"/web" && len(s.Addresses) > 0 && healthy == len(nodeNames(p.state)) {
				return nil
			}
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the load balancer does not call every node of Service web healthy: %+v, %w",
				status, errors.Join(err, ctx.Err()))
		}
	}
}
