package outer

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// What the ingress reads of the API server's objects.
type (
	ingressList struct{ Items []ingress }
	ingress     struct {
		Metadata meta
		Spec     struct {
			IngressClassName string
			DefaultBackend   *ingressBackend
			Rules            []struct {
				Host string
				HTTP struct {
					Paths []struct {
						Path, PathType string
						Backend        ingressBackend
					}
				}
			}
		}
		Status struct {
			LoadBalancer struct{ Ingress []struct{ IP string } }
		}
	}
	ingressBackend struct {
		Service struct {
			Name string
			Port struct {
				Name   string
				Number uint16
			}
		}
	}
	sliceList struct {
		Items []struct {
			Metadata    meta
			AddressType string
			Endpoints   []struct {
				Addresses  []string
				Conditions struct{ Ready *bool }
				TargetRef  struct{ Kind, Name string }
			}
			Ports []struct {
				Name, AppProtocol string
				Port              uint16
			}
		}
	}
)

// IngressClass is the class of the Ingress objects that are served; those without a class are as well.
const IngressClass = "lapse"

// A Rule leads requests with a host and a path to a Service's Pods.
type Rule struct {
	Host  string // "": any; a leading "*." stands for one label
	Path  string
	Exact bool
	To    *Upstream
}

// An Upstream is a Service's port and the Pods behind it that are ready.
type Upstream struct {
	Name    string // namespace_service_port
	H2      bool   // spoken to in HTTP/2 without TLS, as of an appProtocol kubernetes.io/h2c
	Servers []Server
}

// A Server is a Pod.
type Server struct {
	Name string
	Addr netip.AddrPort
}

// ours reports whether an Ingress is ours.
func (i ingress) ours() bool {
	return (i.Spec.IngressClassName == "" || i.Spec.IngressClassName == IngressClass) &&
		i.Metadata.DeletionTimestamp == ""
}

// rulesOf returns the rules of all our Ingresses, those that are more specific first: a host before any host, a longer
// path before a shorter one. https://kubernetes.io/docs/concepts/services-networking/ingress/#multiple-matches
func rulesOf(ingresses ingressList, services serviceList, endpoints sliceList) (rules []Rule) {
	upstreams := map[string]*Upstream{}
	to := func(namespace string, b ingressBackend) *Upstream {
		u := upstream(namespace, b, services, endpoints)
		if known := upstreams[u.Name]; known != nil {
			return known
		}
		upstreams[u.Name] = u
		return u
	}
	for _, in := range ingresses.Items {
		if !in.ours() {
			continue
		}
		for _, r := range in.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				rules = append(rules, Rule{r.Host, "/" + strings.Trim(p.Path, "/"), p.PathType == "Exact",
					to(in.Metadata.Namespace, p.Backend)})
			}
		}
		if b := in.Spec.DefaultBackend; b != nil {
			rules = append(rules, Rule{Path: "/", To: to(in.Metadata.Namespace, *b)})
		}
	}
	slices.SortStableFunc(rules, func(a, b Rule) int {
		switch {
		case a.Host != b.Host:
			return len(b.Host) - len(a.Host)
		case len(a.Path) != len(b.Path):
			return len(b.Path) - len(a.Path)
		case a.Exact == b.Exact:
			return 0
		case a.Exact:
			return -1
		}
		return 1
	})
	return rules
}

// upstream finds the Pods behind a Service's port. One that is not there has none.
func upstream(namespace string, b ingressBackend, services serviceList, endpoints sliceList) *Upstream {
	name, port := b.Service.Name, b.Service.Port
	u := &Upstream{Name: fmt.Sprintf("%s_%s_%s", namespace, name, port.Name+strconv.Itoa(int(port.Number)))}
	portName, found := "", false
	for _, s := range services.Items {
		if s.Metadata.Namespace != namespace || s.Metadata.Name != name {
			continue
		}
		for _, p := range s.Spec.Ports {
			if port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number {
				portName, found = p.Name, true
			}
		}
	}
	if !found {
		return u
	}
	for _, slice := range endpoints.Items {
		if slice.Metadata.Namespace != namespace || slice.Metadata.Labels["kubernetes.io/service-name"] != name {
			continue
		}
		for _, p := range slice.Ports {
			if p.Name != portName {
				continue
			}
			u.H2 = u.H2 || p.AppProtocol == "kubernetes.io/h2c" || p.AppProtocol == "grpc"
			for _, e := range slice.Endpoints {
				addr, err := netip.ParseAddr(slices.Concat(e.Addresses, []string{""})[0])
				if ready := e.Conditions.Ready; err != nil || ready != nil && !*ready {
					continue
				}
				server := Server{e.TargetRef.Name, netip.AddrPortFrom(addr, p.Port)}
				if server.Name == "" {
					server.Name = "at-" + strings.NewReplacer(":", "-", ".", "-").Replace(addr.String())
				}
				u.Servers = append(u.Servers, server)
			}
		}
	}
	slices.SortFunc(u.Servers, func(a, b Server) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return a.Addr.Compare(b.Addr)
	})
	// A Pod of two families has two addresses: the first is enough.
	u.Servers = slices.CompactFunc(u.Servers, func(a, b Server) bool { return a.Name == b.Name })
	return u
}

// configuration returns HAProxy's configuration. A backend without servers answers with 503, a request without a rule
// gets 404; both without the header X-Pod, which only a Pod sets.
func configuration(rules []Rule, c ProxyConfig) string {
	var b strings.Builder
	fmt.Fprintf(&b, `global
	log stdout format raw local0 info
	stats socket %s mode 600 level admin expose-fd listeners
	hard-stop-after 30s
	nbthread 1
	maxconn 8000

defaults
	mode http
	log global
	option httplog
	option dontlog-normal
	timeout connect %dms
	timeout http-request 10s
	timeout client 1m
	timeout server 1m
	timeout tunnel 1h
	retries %d
`, c.socket(), c.Connect.Milliseconds(), c.Retries)
	if c.Retries > 0 {
		b.WriteString("\toption redispatch 1\n")
	}
	b.WriteString("\nfrontend ingress\n")
	for _, addr := range c.Listen {
		fmt.Fprintf(&b, "\tbind %s\n", net.JoinHostPort(addr.String(), "80"))
	}
	for i, r := range rules {
		var all []string
		if r.Host != "" {
			match := "-i " + r.Host
			if suffix, wild := strings.CutPrefix(r.Host, "*"); wild {
				match = "-m end -i " + suffix
			}
			fmt.Fprintf(&b, "\tacl host%d hdr(host),field(1,:) %s\n", i, match)
			all = append(all, fmt.Sprintf("host%d", i))
		}
		switch {
		case r.Exact:
			fmt.Fprintf(&b, "\tacl path%d path %s\n", i, r.Path)
		case r.Path != "/":
			fmt.Fprintf(&b, "\tacl path%[1]d path %[2]s\n\tacl path%[1]d path_beg %[2]s/\n", i, r.Path)
		default:
			fmt.Fprintf(&b, "\tacl path%d path_beg /\n", i)
		}
		all = append(all, fmt.Sprintf("path%d", i))
		fmt.Fprintf(&b, "\tuse_backend %s if %s\n", r.To.Name, strings.Join(all, " "))
	}
	b.WriteString("\tdefault_backend no_ingress\n\nbackend no_ingress\n\thttp-request return status 404 " +
		"content-type text/plain string \"no Ingress has this host and path\"\n")
	written := map[string]bool{}
	for _, r := range rules {
		if written[r.To.Name] {
			continue
		}
		written[r.To.Name] = true
		fmt.Fprintf(&b, "\nbackend %s\n\tbalance roundrobin\n", r.To.Name)
		for _, s := range r.To.Servers {
			fmt.Fprintf(&b, "\tserver %s %s", s.Name, s.Addr)
			if r.To.H2 {
				b.WriteString(" proto h2")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
