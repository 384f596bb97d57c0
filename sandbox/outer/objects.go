package outer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// What the load balancer reads of the API server's objects.
type (
	serviceList struct{ Items []service }
	service     struct {
		Metadata meta
		Spec     struct {
			Type                  string
			LoadBalancerClass     string
			IPFamilies            []string
			ExternalTrafficPolicy string
			HealthCheckNodePort   uint16
			Ports                 []struct {
				Name, Protocol string
				Port, NodePort uint16
			}
		}
		Status struct {
			LoadBalancer struct{ Ingress []struct{ IP string } }
		}
	}
	nodeList struct {
		Items []struct {
			Metadata meta
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	meta struct {
		Namespace, Name, DeletionTimestamp string
		Labels                             map[string]string
	}
)

// excluded is the label by which a node gets no connections of load balancers. It is described in
// https://kubernetes.io/docs/reference/labels-annotations-taints/
const excluded = "node.kubernetes.io/exclude-from-external-load-balancers"

// registered returns the nodes that a cloud's controller registers with a load balancer: all, ready or not, without
// those that have the label (KEP-3458).
func registered(list nodeList) (nodes []Node) {
	for _, item := range list.Items {
		if _, out := item.Metadata.Labels[excluded]; out || item.Metadata.DeletionTimestamp != "" {
			continue
		}
		n := Node{Name: item.Metadata.Name}
		for _, a := range item.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == "InternalIP" {
				n.Addrs = append(n.Addrs, addr)
			}
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// A Frontend is a Service of type LoadBalancer: its addresses, and where what arrives there goes.
type Frontend struct {
	Namespace, Name string
	Addrs           []netip.Addr // one for each family of the Service
	Ports           []Port
	Check           Check
}

// A Port is one of the Service's, and the port on the nodes that stands for it.
type Port struct {
	Protocol       string // tcp or udp
	Port, NodePort uint16
}

func (f Frontend) key() string { return f.Namespace + "/" + f.Name }

// kubeProxyHealthz is where kube-proxy says that it follows, and that its node is not about to be deleted (KEP-3836).
var kubeProxyHealthz = Check{HTTP: true, Port: 10256, Path: "/healthz"}

// frontend returns a Service's frontend, nil if the load balancer does not serve it.
func frontend(s service, check string) *Frontend {
	if s.Spec.Type != "LoadBalancer" || s.Spec.LoadBalancerClass != "" || s.Metadata.DeletionTimestamp != "" {
		return nil
	}
	f := &Frontend{Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}
	for _, p := range s.Spec.Ports {
		if protocol := strings.ToLower(p.Protocol); p.NodePort != 0 && (protocol == "tcp" || protocol == "udp") {
			f.Ports = append(f.Ports, Port{protocol, p.Port, p.NodePort})
		}
	}
	if len(f.Ports) == 0 {
		return nil
	}
	switch given, err := ParseCheck(check); {
	case err == nil:
		f.Check = given
	case s.Spec.ExternalTrafficPolicy == "Local" && s.Spec.HealthCheckNodePort != 0:
		f.Check = Check{HTTP: true, Port: s.Spec.HealthCheckNodePort, Path: "/healthz"}
	default:
		f.Check = kubeProxyHealthz
	}
	return f
}

// Addresses are those that the load balancer can assign: Count addresses of each family, in order.
type Addresses struct {
	First []netip.Addr // one of each family that the cluster has
	Count int
}

// Six reports whether there are addresses of IPv6.
func (a Addresses) Six() bool { return slices.ContainsFunc(a.First, netip.Addr.Is6) }

// at returns the address number i of a family, invalid if there is no such family.
func (a Addresses) at(i int, six bool) netip.Addr {
	for _, first := range a.First {
		if first.Is6() != six {
			continue
		}
		for range i {
			first = first.Next()
		}
		return first
	}
	return netip.Addr{}
}

// assign gives each frontend its addresses: those it has already, by its status or by taken, else the first that are
// free.
func (a Addresses) assign(fronts []*Frontend, families map[string][]string, taken map[string]int) error {
	for key := range taken {
		if !slices.ContainsFunc(fronts, func(f *Frontend) bool { return f.key() == key }) {
			delete(taken, key)
		}
	}
	for _, f := range fronts {
		if _, has := taken[f.key()]; !has {
			i := a.free(taken)
			if i < 0 {
				return fmt.Errorf("no address for Service %s: all %d are taken", f.key(), a.Count)
			}
			taken[f.key()] = i
		}
		f.Addrs = nil
		for _, family := range families[f.key()] {
			if addr := a.at(taken[f.key()], family == "IPv6"); addr.IsValid() {
				f.Addrs = append(f.Addrs, addr)
			}
		}
	}
	return nil
}

func (a Addresses) free(taken map[string]int) int {
	used := make([]bool, a.Count)
	for _, i := range taken {
		used[i] = true
	}
	return slices.Index(used, false)
}

// number returns the index of an address, -1 if it is none of them.
func (a Addresses) number(text string) int {
	addr, err := netip.ParseAddr(text)
	for i := range a.Count {
		if err == nil && addr == a.at(i, addr.Is6()) {
			return i
		}
	}
	return -1
}
