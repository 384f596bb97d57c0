package outer

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A State is what a load balancer thinks of a node.
type State string

const (
	Initial   State = "initial"   // registered, and not checked often enough yet
	Healthy   State = "healthy"   // gets new connections
	Unhealthy State = "unhealthy" // gets none, while another one does
	Draining  State = "draining"  // taken out; its connections live on for the deregistration delay
)

// A Node is where connections can be sent to.
type Node struct {
	Name  string
	Addrs []netip.Addr // one of each family it has
}

// Addr returns the node's address of a family, invalid if it has none.
func (n Node) Addr(six bool) netip.Addr {
	for _, a := range n.Addrs {
		if a.Is6() == six {
			return a
		}
	}
	return netip.Addr{}
}

// A Target is a node, and how its checks went.
type Target struct {
	Node
	State State

	good   bool      // the last check
	streak int       // checks in a row that went as the last one
	left   time.Time // since when it gets no new connections; zero if it gets some
	cut    bool      // its connections were cut, or may live on
}

// Unchecked reports whether the node was registered just now, and no check of it has ended.
func (t Target) Unchecked() bool { return t.State == Initial && t.streak == 0 }

// A Pool is the nodes of one Service.
//
//	checks of a healthy node, Unhealthy 2   ok x ok x x  →  unhealthy; its connections are cut after Deregistration
//	registered nodes                        a b c → a c  →  b drains: no new connections from now on
type Pool struct {
	Config
	Targets []Target // by name
}

// A Change is what became of a node.
type Change struct {
	Node     string
	From, To State
}

// Register says which nodes the cluster has now.
func (p *Pool) Register(nodes []Node, now time.Time) (changes []Change) {
	for i := range p.Targets {
		t := &p.Targets[i]
		there := slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == t.Name })
		switch {
		case !there && t.State != Draining:
			changes = append(changes, t.turn(Draining, now))
		case there && t.State == Draining:
			changes = append(changes, t.turn(Initial, now))
		}
	}
	for _, n := range nodes {
		i, there := slices.BinarySearchFunc(p.Targets, n.Name,
			func(t Target, name string) int { return strings.Compare(t.Name, name) })
		if there {
			p.Targets[i].Node = n
			continue
		}
		p.Targets = slices.Insert(p.Targets, i, Target{Node: n, State: Initial})
		changes = append(changes, Change{n.Name, "", Initial})
	}
	return changes
}

// Checked says how a check of a node went.
func (p *Pool) Checked(node string, good bool, now time.Time) (changes []Change) {
	for i := range p.Targets {
		if t := &p.Targets[i]; t.Name == node && t.State != Draining {
			return t.checked(good, p.Config, now)
		}
	}
	return nil
}

func (t *Target) checked(good bool, c Config, now time.Time) []Change {
	if t.good != good {
		t.good, t.streak = good, 0
	}
	t.streak++
	to, need := Unhealthy, c.Unhealthy
	if good {
		to, need = Healthy, c.Healthy
	}
	if t.State == to || t.streak < need {
		return nil
	}
	return []Change{t.turn(to, now)}
}

func (t *Target) turn(to State, now time.Time) Change {
	change := Change{t.Name, t.State, to}
	t.State, t.streak = to, 0
	switch to {
	case Unhealthy, Draining:
		if t.left.IsZero() {
			t.left, t.cut = now, false
		}
	default:
		t.left = time.Time{}
	}
	return change
}

// New returns the nodes that new connections go to.
func (p *Pool) New() (nodes []Node) {
	var registered []Node
	for _, t := range p.Targets {
		if t.State != Draining {
			registered = append(registered, t.Node)
		}
		if t.State == Healthy {
			nodes = append(nodes, t.Node)
		}
	}
	if len(nodes) == 0 && p.FailOpen {
		return registered
	}
	return nodes
}

// Expired returns the nodes whose connections are to be cut now. Nodes that were taken out are forgotten with that.
func (p *Pool) Expired(now time.Time) (cut []Node) {
	for i := range p.Targets {
		t := &p.Targets[i]
		if t.left.IsZero() || t.cut || now.Before(t.left.Add(p.Deregistration)) {
			continue
		}
		t.cut = true
		if !p.Keep {
			cut = append(cut, t.Node)
		}
	}
	p.Targets = slices.DeleteFunc(p.Targets, func(t Target) bool { return t.State == Draining && t.cut })
	return cut
}

// Deadline returns the next instant at which Expired returns a node, zero if there is none.
func (p *Pool) Deadline() (next time.Time) {
	for _, t := range p.Targets {
		if t.left.IsZero() || t.cut {
			continue
		}
		if at := t.left.Add(p.Deregistration); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}
