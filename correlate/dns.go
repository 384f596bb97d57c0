package correlate

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says when DNS servers followed the changes of endpoints, by the addresses that they gave for a name.

// A stretch is a time in which a server gave the same addresses.
type stretch struct {
	from  model.Instant // it began to
	last  time.Duration // when the last query was sent that it is known to have answered so
	addrs []netip.Addr
}

// A dnsServer is what is on record of one server.
type dnsServer struct {
	model.DNSServer
	service   string // whose endpoints it was asked for
	stretches []stretch
}

// dnsOf returns how the servers that were asked for the run's own name followed the changes of its endpoints; nil if
// none was to be asked. end is where the run has come to.
func dnsOf(events []model.Event, end time.Duration) *model.DNS {
	var dns *model.DNS
	var servers []*dnsServer
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.NameAnswered || e.Object.Kind == "Target" {
			continue
		}
		if dns == nil {
			dns = &model.DNS{Servers: []model.DNSServer{}}
		}
		switch {
		case e.To == timeline.LookupNotAsked:
			dns.NotAsked = strings.TrimPrefix(dns.NotAsked+"; "+e.Detail, "; ")
			continue
		case e.Lookup == nil:
			continue
		}
		at := slices.IndexFunc(servers, func(s *dnsServer) bool { return s.Addr == e.Addr.String() })
		if at < 0 {
			at, servers = len(servers), append(servers, newDNSServer(e))
		}
		servers[at].learn(e)
		dns.Name = e.Lookup.Name
	}
	if dns == nil {
		return nil
	}
	asked, changes := deletionsAsked(events), endpointChanges(events)
	for _, s := range servers {
		s.Changes = s.follow(changes[servicePort{s.service, portOf(events, s.service)}], asked, end)
		dns.Servers = append(dns.Servers, s.DNSServer)
	}
	slices.SortFunc(dns.Servers, func(a, b model.DNSServer) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Addr, b.Addr))
	})
	return dns
}

func newDNSServer(e *model.Event) *dnsServer {
	s := &dnsServer{DNSServer: model.DNSServer{Addr: e.Addr.String(), Node: e.Object.Node}, service: e.Service}
	if e.Object.Name != "" {
		s.Pod = e.Object.Namespace + "/" + e.Object.Name
	}
	return s
}

// portOf returns the port by which the changes of a Service's endpoints are counted: each has the same.
func portOf(events []model.Event, service string) string {
	i := slices.IndexFunc(events, func(e model.Event) bool {
		return e.Kind == timeline.EndpointChanged && e.Service == service
	})
	if i < 0 {
		return ""
	}
	return events[i].PortName
}

// learn takes in what a server answered from then on, or that it did not.
func (s *dnsServer) learn(e *model.Event) {
	l := e.Lookup
	s.Asked, s.Answered = l.Asked, l.Answered
	if l.Shortest != nil && l.Longest != nil {
		s.TTL = &model.Length{Min: *l.Shortest, Max: *l.Longest}
	}
	if n := len(s.stretches); n > 0 && e.From == timeline.LookupAnswered {
		s.stretches[n-1].last = e.At.Earliest
	}
	if e.To == timeline.LookupAnswered {
		s.stretches = append(s.stretches, stretch{from: e.At, last: e.At.Earliest, addrs: l.Addrs})
	} else {
		s.Why = e.Detail
	}
}

// follow returns, for each change, when the server followed it.
func (s *dnsServer) follow(changes []endpointChange, asked map[string]model.Instant,
	end time.Duration) []model.DNSChange {
	list := []model.DNSChange{}
	for _, c := range changes {
		addr := c.event.Addr
		if !addr.IsValid() {
			continue
		}
		followed := model.DNSChange{Change: c.change, Pod: c.event.Object.Name, PodUID: c.event.Object.UID,
			Event: c.event.ID, API: c.event.At}
		start := startOf(c, asked)
		if at, known := asked[followed.PodUID]; known && c.change == model.Removal {
			followed.Asked = &at
		}
		// The address may be another Pod's before and after. This change is between two of the other kind.
		since, until := model.Unbounded, model.Never
		for _, other := range changes {
			switch from := startOf(other, asked).Earliest; {
			case other.event.Addr != addr || other.change == c.change:
			case from > start.Earliest:
				until = min(until, from)
			default:
				since = max(since, from)
			}
		}
		if c.change == model.Removal {
			since = start.Earliest
		}
		if at, open, known := s.settled(addr, c.change, start, since, until); known {
			if open {
				at.Latest = max(end, at.Earliest)
			}
			followed.Changed, followed.Open = &at, open
			followed.Lag = &model.Length{Min: max(0, at.Earliest-start.Latest), Max: max(0, at.Latest-start.Earliest)}
		}
		list = append(list, followed)
	}
	return list
}

// startOf returns what the lag of a change counts from: when the Pod's deletion was asked for, where Lapse did, else
// when its endpoint changed.
func startOf(c endpointChange, asked map[string]model.Instant) model.Instant {
	if at, known := asked[c.event.Object.UID]; known && c.change == model.Removal {
		return at
	}
	return c.event.At
}

// settled says when the answers began to have the address, or not to have it any more, for good. The change began at
// start, and is the address's only one between since and until.
func (s *dnsServer) settled(addr netip.Addr, change model.RouteChange, start model.Instant, since,
	until time.Duration) (at model.Instant, open, known bool) {
	// the stretch from which on it is so; when the last query was sent that it was not
	first, last := -1, model.Unbounded
	for i, p := range s.stretches {
		if p.from.Earliest >= until || first >= 0 && p.from.Latest >= until {
			break
		}
		switch follows := slices.Contains(p.addrs, addr) == (change == model.Addition); {
		case !follows:
			first, last = -1, min(p.last, until)
		case first < 0:
			first = i
		}
	}
	if first < 0 {
		return model.Instant{Earliest: last}, true, last > start.Latest
	}
	switch at = s.stretches[first].from; {
	case at.Latest < since:
		return at, false, false
	case change == model.Removal:
		at.Earliest = max(at.Earliest, start.Earliest)
		return at, false, first > 0 // else no answer had it
	case first == 0:
		at.Earliest = min(start.Earliest, at.Latest)
	}
	return at, false, true
}
