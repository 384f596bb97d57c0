package evidence

import (
	"net/netip"
	"net/url"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A frontend is what a judged target sends to: one port of a Service at one of its addresses. A bare URL has no
// Service.
type frontend struct {
	service, port string
	family        family
}

// A family is an IP address family, 4 or 6; 0 if it is not known.
type family int

func familyOf(addr netip.Addr) family {
	switch {
	case addr.Unmap().Is4():
		return 4
	case addr.IsValid():
		return 6
	}
	return 0
}

// frontendOf returns what t sends to. The family is known for endpoints and for URLs that name an address.
func frontendOf(t *model.Target) frontend {
	f := frontend{service: t.Service, port: t.PortName}
	if t.Kind == timeline.Direct {
		f.family = familyOf(t.Addr.Addr())
	} else if u, err := url.Parse(t.URL); err == nil {
		addr, _ := netip.ParseAddr(u.Hostname())
		f.family = familyOf(addr)
	}
	return f
}

// reaches reports whether requests to f may get to an endpoint of this Service and port, at an address of this
// family. What is not known rules nothing out.
func (f frontend) reaches(o frontend) bool {
	return (f.service == "" || o.service == "" || f.service == o.service) &&
		(f.port == "" || o.port == "" || f.port == o.port) &&
		(f.family == 0 || o.family == 0 || f.family == o.family)
}

func frontendOfEndpoint(e *model.Event) frontend {
	return frontend{service: e.Service, port: e.PortName, family: familyOf(e.Addr)}
}
