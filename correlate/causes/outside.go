package causes

import (
	"net/url"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// outside is the host of a window's URL from which something unseen leads requests on to the Pods, such as a load balancer, an ingress or DNS.
// It is "" where the prober's own node does so: the target is a Service, or its URL names a watched Service's address.
func (v *index) outside(w *model.Window) string {
	t := v.target(w)
	if t.Service != "" {
		return ""
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	host := u.Hostname()
	if slices.ContainsFunc(v.Run.Run.Services, func(s timeline.Service) bool { return host == s.ClusterIP || isNameOf(host, s) }) {
		return ""
	}
	return host
}

// isNameOf reports whether a host is a name that a cluster's DNS has of a Service: web, web.shop, web.shop.svc.cluster.local.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func isNameOf(host string, s timeline.Service) bool {
	full := s.Name + "." + s.Namespace
	return host == s.Name || host == full || strings.HasPrefix(host, full+".svc")
}

// router is who leads the window's requests to Pods: the node they are sent from, or what is behind the URL's host.
func (v *index) router(w *model.Window) string {
	if host := v.outside(w); host != "" {
		return "the load balancer, ingress or DNS of " + host
	}
	return v.from(w)
}

// routerNode is the node that leads the window's requests to Pods, "" if that is not known.
func (v *index) routerNode(w *model.Window) string {
	if v.outside(w) != "" {
		return ""
	}
	return v.target(w).Node
}
