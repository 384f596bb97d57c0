package watcher

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
)

// endpoints watches the EndpointSlices of the namespace's Services. Events are about endpoints, whichever slice they
// are in: while the controller moves an endpoint, it may be in two slices.
func (n *namespace) endpoints() *reflector[*discoveryv1.EndpointSlice] {
	all := map[string]*backends{}
	for _, s := range n.services {
		all[s.key()] = &backends{Service: s, slices: map[types.UID]*discoveryv1.EndpointSlice{}}
	}
	of := func(s *discoveryv1.EndpointSlice) *backends {
		return all[s.Namespace+"/"+s.Labels[discoveryv1.LabelServiceName]]
	}
	var options metav1.ListOptions
	if n.name != metav1.NamespaceAll {
		options.LabelSelector = fmt.Sprintf("%s in (%s)", discoveryv1.LabelServiceName, strings.Join(n.names(), ","))
	}
	var since time.Duration // earliest time of the changes after the last flush; 0: unknown
	return &reflector[*discoveryv1.EndpointSlice]{
		kind:     "EndpointSlice",
		resource: "endpointslices.discovery.k8s.io",
		source:   from(n.Client.EndpointSlices(n.name)),
		options:  options,
		wanted:   func(s *discoveryv1.EndpointSlice) bool { return of(s) != nil },
		services: n.keys(),
		in:       n.name,
		change: func(old, new *discoveryv1.EndpointSlice, _ origin) []timeline.Event {
			since = cmp.Or(since, n.reads.changed(old, new, n.now()))
			if old != nil {
				of(old).put(old.UID, nil)
			}
			if new != nil {
				of(new).put(new.UID, new)
			}
			return nil
		},
		flush: func(how origin) []timeline.Event {
			var events []timeline.Event
			for _, s := range n.services {
				events = append(events, all[s.key()].diff(how)...)
			}
			if how == watched { // a watch brings the change of one EndpointSlice
				for i := range events {
					events[i].Since = since
				}
			}
			since = 0
			return events
		},
		w: n.watcher,
	}
}

// backends are the endpoints of one Service.
type backends struct {
	Service
	slices  map[types.UID]*discoveryv1.EndpointSlice
	known   map[place]endpoint
	changed bool // a slice has changed since known was set
}

// put stores a slice, or removes it if slice is nil. A nil b ignores it.
func (b *backends) put(uid types.UID, slice *discoveryv1.EndpointSlice) {
	if b == nil {
		return
	}
	b.changed = true
	if delete(b.slices, uid); slice != nil {
		b.slices[uid] = slice
	}
}

// diff returns what has changed since the last call.
func (b *backends) diff(how origin) []timeline.Event {
	if !b.changed {
		return nil
	}
	before := b.known
	b.known, b.changed = merge(b.slices, b.Ports...), false
	events := diffEndpoints(before, b.known, how)
	for i := range events {
		events[i].Service = b.key()
	}
	return events
}

// An endpoint is one address of the Service for one of its ports, as its EndpointSlices say.
type endpoint struct {
	state string
	pod   timeline.Object
	port  uint16
}

// A place identifies an endpoint. An address has one endpoint for each of the Service's ports. If Pods give a named
// port different numbers, the ports of one address are in different slices.
type place struct {
	addr netip.Addr
	port string // the name of the Service's port
}

// better ranks the states of an address that is in two slices.
var better = []string{
	timeline.EndpointReady,
	timeline.EndpointTerminatingServing,
	timeline.EndpointNotReady,
	timeline.EndpointTerminating,
}

// merge returns the endpoints in all slices that serve the named ports.
func merge(all map[types.UID]*discoveryv1.EndpointSlice, ports ...string) map[place]endpoint {
	merged := map[place]endpoint{}
	for _, slice := range inOrder(all) {
		for _, port := range ports {
			if number, ok := portOf(slice, port); ok {
				mergeSlice(merged, slice, port, number)
			}
		}
	}
	return merged
}

// mergeSlice adds the endpoints of one slice for one port.
func mergeSlice(merged map[place]endpoint, slice *discoveryv1.EndpointSlice, port string, number uint16) {
	for i := range slice.Endpoints {
		from := &slice.Endpoints[i]
		e := endpoint{state: stateOf(from.Conditions), pod: podOf(slice, from), port: number}
		for _, text := range from.Addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue // an FQDN slice
			}
			at := place{addr, port}
			if other, twice := merged[at]; twice && slices.Index(better, other.state) <= slices.Index(better, e.state) {
				continue
			}
			merged[at] = e
		}
	}
}

// inOrder sorts slices by name, so that the same slices always give the same endpoints.
func inOrder(all map[types.UID]*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(maps.Values(all), byName)
}

func portOf(slice *discoveryv1.EndpointSlice, name string) (uint16, bool) {
	for _, p := range slice.Ports {
		if p.Port != nil && name == orEmpty(p.Name) {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// stateOf returns an endpoint's state from its conditions. Absent ready and serving mean true, absent terminating
// means false.
// https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions
func stateOf(c discoveryv1.EndpointConditions) string {
	ready := c.Ready == nil || *c.Ready
	serving := c.Serving == nil || *c.Serving
	terminating := c.Terminating != nil && *c.Terminating
	switch {
	case ready:
		return timeline.EndpointReady
	case terminating && serving:
		return timeline.EndpointTerminatingServing
	case terminating:
		return timeline.EndpointTerminating
	}
	return timeline.EndpointNotReady
}

// podOf returns the Pod behind an endpoint, or its slice if it names no Pod.
func podOf(slice *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint) timeline.Object {
	o := timeline.Object{Kind: "EndpointSlice", Namespace: slice.Namespace, Name: slice.Name}
	if ref := e.TargetRef; ref != nil {
		o.Kind, o.Namespace, o.Name, o.UID = ref.Kind, cmp.Or(ref.Namespace, slice.Namespace), ref.Name, string(ref.UID)
	}
	if e.NodeName != nil {
		o.Node = *e.NodeName
	}
	return o
}

// diffEndpoints returns an event for each endpoint that came, went or changed its state. Endpoints of the first list
// have no state before.
func diffEndpoints(old, new map[place]endpoint, how origin) []timeline.Event {
	var events []timeline.Event
	for _, at := range sorted(old, new) {
		was, before := old[at]
		is, after := new[at]
		from, to := was.state, is.state
		if !before && how != listed {
			from = timeline.EndpointAbsent
		}
		if !after {
			to, is = timeline.EndpointAbsent, was
		}
		// If another Pod got the address, or the port another number, one endpoint went and another came.
		if before && after && (was.pod.UID != is.pod.UID || was.port != is.port) {
			events = append(events, endpointEvent(at, was, from, timeline.EndpointAbsent))
			from = timeline.EndpointAbsent
		}
		if from != to {
			events = append(events, endpointEvent(at, is, from, to))
		}
	}
	return events
}

func endpointEvent(at place, e endpoint, from, to string) timeline.Event {
	return timeline.Event{
		Kind:     timeline.EndpointChanged,
		From:     from,
		To:       to,
		Object:   e.pod,
		Addr:     at.addr,
		Port:     e.port,
		PortName: at.port,
		Writer:   apiserver,
	}
}

func sorted(a, b map[place]endpoint) []place {
	all := slices.Collect(maps.Keys(a))
	for at := range b {
		if _, both := a[at]; !both {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.port, b.port)) })
	return all
}
