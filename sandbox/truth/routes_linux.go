package truth

import (
	"context"
	"encoding/binary"
	"maps"
	"net/netip"
	"regexp"
	"time"
)

// A routeWatch follows where a node's kernel routes the new connections to a Service. kube-proxy writes netfilter
// rules in either of its modes (its iptables is the one that rests on nftables), and each change of them raises the
// namespace's generation. The watch asks for that number every few milliseconds, which costs next to nothing, and
// reads the rules when it has risen: a route ended after the last look that still found the old generation, and
// before the rules were read.
type routeWatch struct {
	node    string
	cancel  context.CancelFunc
	done    chan struct{}
	removed map[string]Bracket // by address; the latest removal. Read after done.
	// By address, the latest addition, without those that were there from the beginning. Read after done.
	added map[string]Bracket
	err   error
}

// lookEvery bounds the brackets from below: the scheduler widens them on a busy machine.
const lookEvery = 2 * time.Millisecond

// watchRoutes begins to watch the routes of a Service's port ("shop/web", "http") in a network namespace.
func watchRoutes(node, namespace, service, port string) (*routeWatch, error) {
	n, err := openNetfilter(namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &routeWatch{node: node, cancel: cancel, done: make(chan struct{}),
		removed: map[string]Bracket{}, added: map[string]Bracket{}}
	go func() {
		defer close(w.done)
		defer n.close()
		w.err = w.follow(ctx, n, service, port)
	}()
	return w, nil
}

// end ends the watch and returns when each address lost its route. It may be called twice.
func (w *routeWatch) end() (map[string]Bracket, error) {
	w.cancel()
	<-w.done
	return w.removed, w.err
}

func (w *routeWatch) follow(ctx context.Context, n netfilter, service, port string) error {
	var known map[string]bool
	var generation uint32
	var unchanged time.Time // when the known routes were certainly in force
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		current, err := n.generation()
		if err != nil {
			return err
		}
		if known == nil || current != generation {
			routes, err := routes(n, service, port)
			if err != nil {
				return err
			}
			read := time.Now()
			for address := range known {
				if !routes[address] {
					w.removed[address] = Bracket{unchanged, read}
				}
			}
			for address := range routes {
				if known != nil && !known[address] {
					w.added[address] = Bracket{unchanged, read}
				}
			}
			known, generation = routes, current
		}
		unchanged = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// routes returns the addresses that the Service's new connections go to.
func routes(n netfilter, service, port string) (map[string]bool, error) {
	rules, err := n.rules("nat")
	if err != nil {
		return nil, err
	}
	found := iptablesRoutes(rules, service, port)
	const table = "kube-proxy"
	rules, err = n.rules(table)
	if err != nil {
		return nil, err
	}
	for _, name := range nftablesMaps(rules, service, port) {
		values, err := n.values(table, name)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, nftablesRoutes(values))
	}
	return found, nil
}

// iptablesRoutes finds, in the rules of the table nat, those of a Service that lead to an endpoint. Each has a comment:
//
//	-A KUBE-SVC-… -m comment --comment "shop/web:http -> 10.244.1.5:8080" … -j KUBE-SEP-…
func iptablesRoutes(rules [][]byte, service, port string) map[string]bool {
	comment := regexp.MustCompile(regexp.QuoteMeta(service+":"+port) + ` -> ([0-9.]+:[0-9]+)`)
	found := map[string]bool{}
	for _, rule := range rules {
		if match := comment.FindSubmatch(rule); match != nil {
			found[string(match[1])] = true
		}
	}
	return found
}

// nftablesMaps finds, in the rules of kube-proxy's own table, the maps by which a Service's chain chooses an endpoint:
//
//	chain service-ABCD2345-shop/web/tcp/http {
//		dnat ip addr . port to numgen random mod 2 map { 0 : 10.244.1.5 . 8080, … }
//	}
func nftablesMaps(rules [][]byte, service, port string) (names []string) {
	chain := regexp.MustCompile(`service-[A-Z0-9]+-` + regexp.QuoteMeta(service+"/tcp/"+port) + `\x00`)
	name := regexp.MustCompile(`__map[0-9]+`)
	for _, rule := range rules {
		if chain.Match(rule) {
			if match := name.Find(rule); match != nil {
				names = append(names, string(match))
			}
		}
	}
	return names
}

// nftablesRoutes reads the values of such a map: an address in 4 bytes, a port in 2, and as many to fill up.
func nftablesRoutes(values [][]byte) map[string]bool {
	found := map[string]bool{}
	for _, v := range values {
		if len(v) >= 6 {
			found[netip.AddrPortFrom(netip.AddrFrom4([4]byte(v)), binary.BigEndian.Uint16(v[4:])).String()] = true
		}
	}
	return found
}
