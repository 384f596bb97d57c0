package evidence

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Outside returns the host of the window's URL if something unseen routes its requests to Pods, such as a load
// balancer, an ingress or DNS. It returns "" if the prober's own node does: the target is a Service, or its URL names a
// watched Service. A prober outside of the cluster is on no node: what routes its requests from a load balancer's
// address or an external IP is not seen.
func (v *Services) Outside(w *model.Window) string {
	t := v.traffic.Target(w)
	if t.Service != "" && (t.Node != "" || t.Route != "loadbalancer" && t.Route != "externalip") {
		return ""
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	host := u.Hostname()
	if slices.ContainsFunc(v.Run.Run.Services, func(s timeline.Service) bool {
		return host == s.ClusterIP || isNameOf(host, s)
	}) {
		return ""
	}
	return host
}

// Unwatched returns the doubt that something unseen, which routes the window's requests to Pods, made them fail.
func (v *Services) Unwatched(w *model.Window) []Sign {
	host := v.Outside(w)
	if host == "" {
		return nil
	}
	return []Sign{Measured.Doubt(fmt.Sprintf("what leads requests from %s to the Pods is not watched: a change there "+
		"fits as well", host))}
}

// isNameOf reports whether a host is a name that a cluster's DNS has of a Service: web, web.shop,
// web.shop.svc.cluster.local. https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func isNameOf(host string, s timeline.Service) bool {
	full := s.Name + "." + s.Namespace
	return host == s.Name || host == full || strings.HasPrefix(host, full+".svc")
}

// Router returns who leads the window's requests to Pods: the node they are sent from, the one whose port is asked, the
// Service's name, or what is behind the URL's host.
func (v *Services) Router(w *model.Window) string {
	t := v.traffic.Target(w)
	switch host := v.Outside(w); {
	case host != "":
		return "the load balancer, ingress or DNS of " + host
	case t.Turns:
		return "the name of " + NameOf(t.Service)
	case t.RouteNode != "":
		return t.RouteNode
	}
	return v.traffic.From(w)
}

// Routes returns what leads the window's requests to Pods, as the subject of a sentence: "the routes of node1".
func (v *Services) Routes(w *model.Window) string {
	if v.RouterNode(w) != "" {
		return "the routes of " + v.Router(w)
	}
	return v.Router(w)
}

// NameOf returns the name of a Service, NAMESPACE/NAME, without its namespace.
func NameOf(service string) string { return service[strings.IndexByte(service, '/')+1:] }

// NamespaceOf returns the namespace of a Service, NAMESPACE/NAME; "" of none.
func NamespaceOf(service string) string { return service[:max(0, strings.IndexByte(service, '/'))] }

// RouterNode returns the node that leads the window's requests to Pods, "" if that is not known.
func (v *Services) RouterNode(w *model.Window) string {
	t := v.traffic.Target(w)
	if v.Outside(w) != "" || t.Turns {
		return ""
	}
	return cmp.Or(t.RouteNode, t.Node)
}

// Policy returns the traffic policy that the window's requests are under, and the node whose endpoints it means; ""
// where there is none. Requests of Pods to a load balancer's address or an external IP go to all endpoints, whatever
// the Policy. https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy
func (v *Services) Policy(w *model.Window) (policy, node string) {
	spec, t := v.Spec(w), v.traffic.Target(w)
	switch {
	case spec == nil || t.Turns || v.Outside(w) != "":
		return "", ""
	case t.RouteNode != "":
		return spec.Snapshot.Service.External, t.RouteNode
	case t.Route == "loadbalancer", t.Route == "externalip":
		return "", ""
	}
	return spec.Snapshot.Service.Internal, t.Node
}
