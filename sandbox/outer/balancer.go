package outer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// An API is the API server.
type API interface {
	Get(ctx context.Context, path string, into any) error
	Patch(ctx context.Context, path string, body any) error // a JSON merge patch (RFC 7386)
}

// Balance runs the load balancer in the network namespace it is called in, until the context ends. It writes to the
// file state what [Status] reads. In the end its rules and addresses are gone, and the Services have no address in
// their status.
func Balance(ctx context.Context, c Config, api API, addresses Addresses, state string, log *slog.Logger) error {
	if err := c.Validate(); err != nil {
		return err
	}
	b := &balancer{
		Config: c, api: api, addresses: addresses, state: state, log: log,
		taken: map[string]int{}, pools: map[string]*Pool{}, given: map[netip.Addr]bool{}, asking: map[string]bool{},
		looked: make(chan look), checked: make(chan verdict),
	}
	err := b.run(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = os.Remove(state)
	return errors.Join(err, Leave(ctx, api, addresses))
}

type balancer struct {
	Config
	api       API
	addresses Addresses
	state     string
	log       *slog.Logger

	fronts  []*Frontend
	taken   map[string]int      // the number of a frontend's addresses
	pools   map[string]*Pool    // of each frontend
	given   map[netip.Addr]bool // addresses on the interface
	least   map[netip.Addr]Node // of least connections: which node gets the next ones, by the frontend's address
	script  string              // the rules that are in force
	written string              // the state that was written

	looking bool
	looked  chan look
	asking  map[string]bool // checks under way
	checked chan verdict
	all     sync.WaitGroup
}

// A look is what the API server says.
type look struct {
	services serviceList
	nodes    nodeList
	err      error
}

// A verdict is a check's result.
type verdict struct {
	front, node string
	err         error
}

// leastEvery is how often the node with the fewest connections is looked for.
const leastEvery = 200 * time.Millisecond

func (b *balancer) run(ctx context.Context) error {
	defer b.all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sync, check, least := time.NewTicker(b.Sync), time.NewTicker(b.Interval), time.NewTicker(leastEvery)
	defer sync.Stop()
	defer check.Stop()
	defer least.Stop()
	if b.Algorithm != LeastConnections {
		least.Stop()
	}
	b.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sync.C:
			b.look(ctx)
		case l := <-b.looked:
			b.looking = false
			if l.err != nil {
				b.log.Warn("the API server does not answer: what is known is kept", "err", l.err)
				break
			}
			b.follow(ctx, l)
			b.check(ctx, Target.Unchecked) // the others when the interval is over
		case <-check.C:
			b.check(ctx, func(Target) bool { return true })
		case v := <-b.checked:
			delete(b.asking, v.front+" "+v.node)
			if pool := b.pools[v.front]; pool != nil {
				b.tell(v.front, pool.Checked(v.node, v.err == nil, time.Now()), v.err)
			}
		case <-least.C:
			b.findLeast(ctx)
		case <-b.deadline():
		}
		b.expire(ctx)
		if err := b.apply(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// look asks the API server, unless it still does.
func (b *balancer) look(ctx context.Context) {
	if b.looking {
		return
	}
	b.looking = true
	b.all.Go(func() {
		var l look
		if l.err = b.api.Get(ctx, "/api/v1/services", &l.services); l.err == nil {
			l.err = b.api.Get(ctx, "/api/v1/nodes", &l.nodes)
		}
		select {
		case b.looked <- l:
		case <-ctx.Done():
		}
	})
}

// follow takes over what the API server says, and gives addresses to Services.
func (b *balancer) follow(ctx context.Context, l look) {
	families, has := map[string][]string{}, map[string][]string{}
	b.fronts = nil
	for _, s := range l.services.Items {
		f := frontend(s, b.Check)
		if f == nil {
			continue
		}
		b.fronts = append(b.fronts, f)
		families[f.key()] = s.Spec.IPFamilies
		for _, in := range s.Status.LoadBalancer.Ingress {
			has[f.key()] = append(has[f.key()], in.IP)
			if i := b.addresses.number(in.IP); i >= 0 && b.pools[f.key()] == nil {
				b.taken[f.key()] = i // of a load balancer that ran before
			}
		}
	}
	if err := b.addresses.assign(b.fronts, families, b.taken); err != nil {
		b.log.Error("addresses", "err", err)
	}
	nodes := registered(l.nodes)
	for key := range b.pools {
		if !slices.ContainsFunc(b.fronts, func(f *Frontend) bool { return f.key() == key }) {
			delete(b.pools, key)
			b.log.Info("Service is gone", "service", key)
		}
	}
	for _, f := range b.fronts {
		if b.pools[f.key()] == nil {
			b.pools[f.key()] = &Pool{Config: b.Config}
			b.log.Info("Service", "service", f.key(), "addresses", f.Addrs, "check", f.Check.String())
		}
		b.tell(f.key(), b.pools[f.key()].Register(nodes, time.Now()), nil)
		if want := texts(f.Addrs); !slices.Equal(want, has[f.key()]) {
			if err := b.publish(ctx, f, want); err != nil {
				b.log.Warn("write the Service's status", "service", f.key(), "err", err)
			}
		}
	}
}

func texts(addrs []netip.Addr) (all []string) {
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return all
}

// publish writes a Service's addresses into its status.
func (b *balancer) publish(ctx context.Context, f *Frontend, addrs []string) error {
	return publish(ctx, b.api, f.Namespace, f.Name, addrs, b.IPMode)
}

func publish(ctx context.Context, api API, namespace, name string, addrs []string, mode string) error {
	type entry struct {
		IP     string `json:"ip"`
		IPMode string `json:"ipMode"`
	}
	var entries []entry // null takes the field out
	for _, a := range addrs {
		entries = append(entries, entry{a, mode})
	}
	return api.Patch(ctx, "/api/v1/namespaces/"+namespace+"/services/"+name+"/status",
		map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": entries}}})
}

func (b *balancer) tell(front string, changes []Change, err error) {
	for _, c := range changes {
		attrs := []any{"service", front, "node", c.Node, "from", string(c.From), "to", string(c.To)}
		if err != nil {
			attrs = append(attrs, "check", err.Error())
		}
		b.log.Info("node", attrs...)
	}
}

// check begins a check of each node of each Service that is due.
func (b *balancer) check(ctx context.Context, due func(Target) bool) {
	for _, f := range b.fronts {
		if len(f.Addrs) == 0 {
			continue
		}
		for _, t := range b.pools[f.key()].Targets {
			key := f.key() + " " + t.Name
			if t.State == Draining || b.asking[key] || !due(t) {
				continue
			}
			b.asking[key] = true
			addr := t.Addr(f.Addrs[0].Is6())
			b.all.Go(func() {
				v := verdict{front: f.key(), node: t.Name, err: ask(ctx, addr, f, b.Timeout)}
				select {
				case b.checked <- v:
				case <-ctx.Done():
				}
			})
		}
	}
}

func (b *balancer) deadline() <-chan time.Time {
	var next time.Time
	for _, p := range b.pools {
		if at := p.Deadline(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// expire cuts the connections whose time is over: it makes the table of connections forget them.
func (b *balancer) expire(ctx context.Context) {
	for _, f := range b.fronts {
		for _, n := range b.pools[f.key()].Expired(time.Now()) {
			for _, addr := range f.Addrs {
				said := forget(ctx, addr, "--reply-src", n.Addr(addr.Is6()).String())
				b.log.Info("cut", "service", f.key(), "node", n.Name, "conntrack", said)
			}
		}
	}
}

// forget deletes from the table of connections those to an address, of which more can be said, and returns what
// conntrack says of it. One that is left there goes on to the old node and its port, also if it is a new one of a
// client that happens to have the same source port: where the node was dead, an entry lives for 2 minutes.
func forget(ctx context.Context, to netip.Addr, more ...string) string {
	family := "ipv4"
	if to.Is6() {
		family = "ipv6"
	}
	args := append([]string{"-D", "-f", family, "--orig-dst", to.String()}, more...)
	out, _ := exec.CommandContext(ctx, "conntrack", args...).CombinedOutput() // exit code 1: there was none
	return lastLine(string(out))
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// apply puts addresses and rules in force, if they have changed, and writes the state.
func (b *balancer) apply(ctx context.Context) error {
	want := map[netip.Addr]bool{}
	var routes []Route
	for _, f := range b.fronts {
		for _, a := range f.Addrs {
			want[a] = true
		}
		routes = append(routes, Route{f, b.next(f)})
	}
	for addr := range want {
		if !b.given[addr] {
			if err := setAddress(ctx, "replace", addr); err != nil {
				return err
			}
		}
	}
	if script := Rules(routes, b.addresses.Six()); script != b.script {
		if err := run(ctx, script, "nft", "-f", "-"); err != nil {
			return err
		}
		b.script = script
	}
	for addr := range b.given {
		if !want[addr] {
			if err := setAddress(ctx, "delete", addr); err != nil {
				return err
			}
			forget(ctx, addr)
		}
	}
	b.given = want
	return b.write()
}

// next returns the nodes that get new connections of a frontend.
func (b *balancer) next(f *Frontend) []Node {
	nodes := b.pools[f.key()].New()
	if b.Algorithm != LeastConnections || len(f.Addrs) == 0 {
		return nodes
	}
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == b.least[f.Addrs[0]].Name }); i >= 0 {
		return nodes[i : i+1]
	}
	return nodes
}

// findLeast finds for each frontend the node that has the fewest connections.
func (b *balancer) findLeast(ctx context.Context) {
	b.least = map[netip.Addr]Node{}
	for _, f := range b.fronts {
		if len(f.Addrs) == 0 {
			continue
		}
		addr, nodes := f.Addrs[0], b.pools[f.key()].New()
		if len(nodes) == 0 {
			continue
		}
		family := "ipv4"
		if addr.Is6() {
			family = "ipv6"
		}
		out, err := exec.CommandContext(ctx, "conntrack", "-L", "-f", family, "--orig-dst", addr.String()).Output()
		if err != nil {
			b.log.Warn("count connections", "err", err)
			continue
		}
		b.least[addr] = fewest(string(out), nodes, addr.Is6())
	}
}

// fewest returns the node with the fewest connections in conntrack's list that are not over. Of the second `src=` of a
// line, the reply's.
//
//	tcp 6 86399 ESTABLISHED src=10.200.0.3 dst=10.200.0.201 sport=… dport=80 src=10.200.0.12 dst=10.200.0.2 …
func fewest(list string, nodes []Node, six bool) Node {
	count := map[string]int{}
	for line := range strings.Lines(list) {
		if strings.Contains(line, "TIME_WAIT") || strings.Contains(line, "CLOSE") {
			continue
		}
		if _, reply, found := cutLast(line, " src="); found {
			addr, _, _ := strings.Cut(reply, " ")
			count[addr]++
		}
	}
	return slices.MinFunc(nodes, func(x, y Node) int {
		return count[x.Addr(six).String()] - count[y.Addr(six).String()]
	})
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Leave takes everything back that a load balancer has made, also one that was killed: the addresses in the Services'
// status, the rules, the connections and the addresses of the network namespace it is called in.
func Leave(ctx context.Context, api API, addresses Addresses) error {
	var services serviceList
	err := api.Get(ctx, "/api/v1/services", &services)
	for _, s := range services.Items {
		ours := slices.ContainsFunc(s.Status.LoadBalancer.Ingress,
			func(in struct{ IP string }) bool { return addresses.number(in.IP) >= 0 })
		if ours {
			err = errors.Join(err, publish(ctx, api, s.Metadata.Namespace, s.Metadata.Name, nil, ""))
		}
	}
	err = errors.Join(err, run(ctx, removeTables(addresses.Six()), "nft", "-f", "-"))
	for _, first := range addresses.First {
		for i := range addresses.Count {
			addr := addresses.at(i, first.Is6())
			if setAddress(ctx, "delete", addr) == nil { // most are not there
				forget(ctx, addr)
			}
		}
	}
	return err
}

func setAddress(ctx context.Context, verb string, addr netip.Addr) error {
	args := []string{"address", verb, netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "eth0"}
	if addr.Is6() && verb != "delete" {
		args = append(args, "nodad")
	}
	return run(ctx, "", "ip", args...)
}

func run(ctx context.Context, stdin, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// A Status is what the load balancer does at the moment for each Service.
type Status struct {
	Services []ServiceStatus `json:"services"`
}

// ServiceStatus is the part of a [Status] that is about one Service.
type ServiceStatus struct {
	Service string           `json:"service"`
	Addrs   []netip.Addr     `json:"addresses"`
	Check   string           `json:"check"`
	Nodes   map[string]State `json:"nodes"`
	New     []string         `json:"new"` // the nodes that new connections go to
}

func (b *balancer) write() error {
	s := Status{Services: []ServiceStatus{}}
	for _, f := range b.fronts {
		one := ServiceStatus{Service: f.key(), Addrs: f.Addrs, Check: f.Check.String(), Nodes: map[string]State{}}
		for _, t := range b.pools[f.key()].Targets {
			one.Nodes[t.Name] = t.State
		}
		for _, n := range b.next(f) {
			one.New = append(one.New, n.Name)
		}
		s.Services = append(s.Services, one)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil || string(data) == b.written {
		return err
	}
	b.written = string(data)
	return writeWhole(b.state, data)
}

// Sorted returns a status's nodes by name.
func (s ServiceStatus) Sorted() []string { return slices.Sorted(maps.Keys(s.Nodes)) }
