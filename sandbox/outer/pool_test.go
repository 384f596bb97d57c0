package outer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func nodes(names string) (all []Node) {
	for i, name := range strings.Fields(names) {
		all = append(all, Node{Name: name, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 200, 0, byte(11 + i)}),
			netip.MustParseAddr(fmt.Sprintf("fd00:10:200::%d", 11+i))}})
	}
	return all
}

func names(of []Node) string {
	var all []string
	for _, n := range of {
		all = append(all, n.Name)
	}
	return strings.Join(all, " ")
}

var start = time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)

// Each step is a second after the one before: + a check of b that succeeds, - one that fails, and what follows gets
// new connections.
func TestChecksInARowDecideWhoGetsConnections(t *testing.T) {
	c := Default
	c.Unhealthy, c.Healthy = 3, 2
	for _, test := range []struct{ checks, states string }{
		{"+ +", "initial healthy"},
		{"+ - + +", "initial initial initial healthy"},
		{"- - -", "initial initial unhealthy"},
		{"+ + - - + - - - + +", "initial healthy healthy healthy healthy healthy healthy unhealthy unhealthy healthy"},
	} {
		p := &Pool{Config: c}
		p.Register(nodes("b"), start)
		var got []string
		for _, check := range strings.Fields(test.checks) {
			p.Checked("b", check == "+", start)
			got = append(got, string(p.Targets[0].State))
		}
		if strings.Join(got, " ") != test.states {
			t.Errorf("%s: %v, want %s", test.checks, got, test.states)
		}
	}
}

func checked(p *Pool, good bool, names string) {
	for range max(p.Unhealthy, p.Healthy) {
		for _, name := range strings.Fields(names) {
			p.Checked(name, good, start)
		}
	}
}

func TestNoHealthyNodeFailsOpenOrClosed(t *testing.T) {
	for open, want := range map[bool]string{true: "a b", false: ""} {
		p := &Pool{Config: Default}
		p.FailOpen = open
		p.Register(nodes("a b"), start)
		checked(p, false, "a b")
		if got := names(p.New()); got != want {
			t.Errorf("fail open %v: %q, want %q", open, got, want)
		}
		checked(p, true, "b")
		if got := names(p.New()); got != "b" {
			t.Errorf("one is healthy: %q", got)
		}
	}
}

func TestConnectionsOfANodeThatLeftAreCutAfterTheDelayAndOnce(t *testing.T) {
	c := Default
	c.Deregistration = 10 * time.Second
	p := &Pool{Config: c}
	p.Register(nodes("a b c"), start)
	checked(p, true, "a b c")
	p.Register([]Node{nodes("a b c")[0], nodes("a b c")[2]}, start)
	if got := names(p.New()); got != "a c" {
		t.Errorf("b was taken out; new connections go to %q", got)
	}
	if at := p.Deadline(); at != start.Add(c.Deregistration) {
		t.Errorf("deadline %v", at)
	}
	if cut := p.Expired(start.Add(c.Deregistration - 1)); len(cut) > 0 {
		t.Errorf("cut too early: %v", cut)
	}
	if cut := p.Expired(start.Add(c.Deregistration)); names(cut) != "b" {
		t.Errorf("cut %v", cut)
	}
	if cut := p.Expired(start.Add(time.Hour)); len(cut) > 0 || len(p.Targets) != 2 || !p.Deadline().IsZero() {
		t.Errorf("cut again: %v, of %+v", cut, p.Targets)
	}
}

func TestANodeThatComesBackIsNotCut(t *testing.T) {
	p := &Pool{Config: Default}
	p.Register(nodes("a b"), start)
	checked(p, true, "a b")
	p.Register(nodes("a"), start)
	p.Register(nodes("a b"), start.Add(time.Second))
	if p.Targets[1].State != Initial || len(p.Expired(start.Add(time.Hour))) > 0 {
		t.Errorf("%+v", p.Targets[1])
	}
	checked(p, false, "a")
	checked(p, true, "a")
	if cut := p.Expired(start.Add(time.Hour)); len(cut) > 0 {
		t.Errorf("healthy again, and cut: %v", cut)
	}
}

func TestKeepCutsNothing(t *testing.T) {
	c := Default
	c.Keep = true
	p := &Pool{Config: c}
	p.Register(nodes("a b"), start)
	p.Register(nodes("a"), start)
	if cut := p.Expired(start.Add(time.Hour)); len(cut) > 0 || len(p.Targets) != 1 {
		t.Errorf("cut %v, left %+v", cut, p.Targets)
	}
}

func TestChecksAreRead(t *testing.T) {
	for text, want := range map[string]Check{
		"nodeport":           {NodePort: true},
		"tcp:22":             {Port: 22},
		"http:10256/healthz": {HTTP: true, Port: 10256, Path: "/healthz"},
		"http:80":            {HTTP: true, Port: 80, Path: "/"},
	} {
		if got, err := ParseCheck(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "tcp", "tcp:0", "tcp:99999", "tcp:80/x", "https:443/", "http:/"} {
		if _, err := ParseCheck(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestWrongConfigurationIsNamed(t *testing.T) {
	for flag, wrong := range map[string]func(*Config){
		"--algorithm":            func(c *Config) { c.Algorithm = "random" },
		"--check ":               func(c *Config) { c.Check = "ping" },
		"--interval":             func(c *Config) { c.Interval = 0 },
		"--check-timeout":        func(c *Config) { c.Timeout = 0 },
		"--unhealthy":            func(c *Config) { c.Unhealthy = 0 },
		"--sync":                 func(c *Config) { c.Sync = 0 },
		"--deregistration-delay": func(c *Config) { c.Deregistration = -1 },
		"--ip-mode":              func(c *Config) { c.IPMode = "vip" },
	} {
		c := Default
		wrong(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v, want an error naming %s", err, flag)
		}
	}
	if err := Default.Validate(); err != nil {
		t.Error(err)
	}
}

// A node is checked at once when it is registered, and then at the interval, however often the API server says that
// it is there.
func TestOnlyNodesThatAreNewAreUnchecked(t *testing.T) {
	p := &Pool{Config: Default}
	unchecked := func() string {
		var all []Node
		for _, t := range p.Targets {
			if t.Unchecked() {
				all = append(all, t.Node)
			}
		}
		return names(all)
	}
	p.Register(nodes("a b"), start)
	if got := unchecked(); got != "a b" {
		t.Errorf("of new nodes %q", got)
	}
	p.Checked("a", true, start)
	p.Register(nodes("a b c"), start)
	if got := unchecked(); got != "b c" {
		t.Errorf("after a check of a, and with c: %q", got)
	}
}
