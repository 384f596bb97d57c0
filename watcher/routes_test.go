package watcher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
)

// nodeAt is a Node with these addresses within the cluster.
func nodeAt(name string, internal ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	for _, addr := range internal {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr})
	}
	return n
}

// The kinds of Services in the Kubernetes documentation.
var (
	clusterIPService = service()
	nodePortService  = with(service(), func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 })
	headlessService  = with(service(), func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	externalName     = with(service(), func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.org."}
	})
	loadBalancer = with(service(), func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeLoadBalancer, 30080
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.org"}}
	})
	pending     = with(loadBalancer.DeepCopy(), func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil })
	withoutPort = with(loadBalancer.DeepCopy(), func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 })
	externalIPs = with(service(), func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.9"} })
	byHand      = with(service(), func(s *corev1.Service) { s.Spec.Selector = nil })
	dualStack   = with(service(), func(s *corev1.Service) {
		s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{"10.96.0.9", "fd00::9"}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	dualNodePort = with(dualStack.DeepCopy(), func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 })
	dualHeadless = with(dualStack.DeepCopy(), func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	})
	onlyIPv6 = with(service(), func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = "fd00::9", []string{"fd00::9"}, []corev1.IPFamily{corev1.IPv6Protocol}
	})
)

// describeBy looks a Service up whose endpoint listens on 8080, in a cluster of two nodes and a third without an
// address.
func describeBy(t *testing.T, s *corev1.Service, routes string, more ...runtime.Object) (Info, error) {
	t.Helper()
	var asked Asked
	if routes != "" {
		var err error
		if asked.Routes, err = ParseRoutes(routes); err != nil {
			return Info{}, err
		}
	}
	if isExternalName(s) {
		asked.Port = "5432"
	}
	if len(more) == 0 {
		more = []runtime.Object{nodeAt("node2", "172.30.0.2", "fd01::2"), nodeAt("node1", "172.30.0.1", "fd01::1")}
	}
	port := int32(8080)
	own := with(slice("web-a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = &port })
	return Describe(t.Context(), kubetest.Client(fake.NewSimpleClientset(append(more, s, own)...)), "shop", "web", asked)
}

func wayText(w Way) string {
	text := fmt.Sprintf("%s → %s:%d", w.Name(), w.Host, w.Port)
	if w.Node != "" {
		text += " of " + w.Node
	}
	if w.Family != 0 {
		text += fmt.Sprintf(" family %d", w.Family)
	}
	if w.Turns {
		text += " in turn"
	}
	return strings.TrimPrefix(text, " ")
}

// Each kind of Service has its ways: where requests go, and what the targets are called.
func TestEachKindOfServiceHasItsWays(t *testing.T) {
	for name, test := range map[string]struct {
		service *corev1.Service
		routes  string
		want    string
	}{
		"ClusterIP":                   {clusterIPService, "", "→ :80"},
		"ClusterIP by name":           {clusterIPService, "clusterip", "clusterip → :80"},
		"headless":                    {headlessService, "", "→ :8080 in turn"},
		"headless by name":            {headlessService, "headless", "headless → :8080 in turn"},
		"headless of one family":      {dualHeadless, "ipv6", "ipv6 → :8080 family 6 in turn"},
		"no selector":                 {byHand, "", "→ :80"},
		"ExternalName":                {externalName, "", "→ db.example.org.:5432"},
		"NodePort by default":         {nodePortService, "", "→ :80"},
		"NodePort of every node":      {nodePortService, "nodeport", "nodeport node1 → 172.30.0.1:30080 of node1, nodeport node2 → 172.30.0.2:30080 of node2"},
		"NodePort of a node":          {nodePortService, "nodeport:node2", "nodeport node2 → 172.30.0.2:30080 of node2"},
		"several":                     {nodePortService, "clusterip,nodeport:node2", "clusterip → :80, nodeport node2 → 172.30.0.2:30080 of node2"},
		"NodePort of both families":   {dualNodePort, "nodeport:node1", "nodeport node1 → 172.30.0.1:30080 of node1, nodeport node1 ipv6 → fd01::1:30080 of node1"},
		"LoadBalancer by default":     {loadBalancer, "", "→ :80"},
		"LoadBalancer":                {loadBalancer, "loadbalancer", "loadbalancer 192.0.2.1 → 192.0.2.1:80, loadbalancer lb.example.org → lb.example.org:80"},
		"node ports of LoadBalancer":  {loadBalancer, "nodeport:node1", "nodeport node1 → 172.30.0.1:30080 of node1"},
		"externalIPs":                 {externalIPs, "externalip", "externalip → 192.0.2.9:80"},
		"dual stack":                  {dualStack, "", "→ :80"},
		"dual stack, each by itself":  {dualStack, "ipv4,ipv6", "ipv4 → 10.96.0.9:80 family 4, ipv6 → fd00::9:80 family 6"},
		"IPv6 alone":                  {onlyIPv6, "ipv6", "ipv6 → fd00::9:80 family 6"},
		"spaces between":              {nodePortService, "clusterip, nodeport:node2", "clusterip → :80, nodeport node2 → 172.30.0.2:30080 of node2"},
		"two nodes":                   {nodePortService, "nodeport:node2,nodeport:node1", "nodeport node1 → 172.30.0.1:30080 of node1, nodeport node2 → 172.30.0.2:30080 of node2"},
		"one route of several, twice": {nodePortService, "nodeport:node2,clusterip", "nodeport node2 → 172.30.0.2:30080 of node2, clusterip → :80"},
	} {
		info, err := describeBy(t, test.service, test.routes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var ways []string
		for _, w := range info.Ways {
			ways = append(ways, wayText(w))
		}
		if got := strings.Join(ways, ", "); got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}

func TestRoutesThatAServiceDoesNotHaveAreRefused(t *testing.T) {
	portless := with(nodeAt("node3"), func(n *corev1.Node) {})
	for name, test := range map[string]struct {
		service *corev1.Service
		routes  string
		objects []runtime.Object
		what    string
		hint    string
	}{
		"unknown":              {clusterIPService, "ingress", nil, `no route "ingress"`, "externalname, headless, clusterip, nodeport"},
		"empty":                {clusterIPService, "clusterip,", nil, `no route ""`, "clusterip"},
		"no node to name":      {clusterIPService, "clusterip:node1", nil, "takes no node", "nodeport:node2"},
		"no node named":        {nodePortService, "nodeport:", nil, "no node after the colon", "nodeport:node2"},
		"twice":                {nodePortService, "nodeport,nodeport", nil, "named twice", "once"},
		"all and one":          {nodePortService, "nodeport,nodeport:node1", nil, "given both with and without a node", "drop"},
		"no node port":         {clusterIPService, "nodeport", nil, "has no route nodeport: it is of type ClusterIP", "it has clusterip, ipv4"},
		"none was allocated":   {withoutPort, "nodeport", nil, "allocateLoadBalancerNodePorts", "it has clusterip, loadbalancer, ipv4"},
		"no such node":         {nodePortService, "nodeport:node9", nil, "no such node", "node1, node2"},
		"node without address": {nodePortService, "nodeport", []runtime.Object{nodeAt("node1", "172.30.0.1"), portless}, "node3 has no address of type InternalIP", "?route=nodeport:node1"},
		"node of the other family": {nodePortService, "nodeport:node1", []runtime.Object{nodeAt("node1", "fd01::1")},
			"node1 has no address of type InternalIP in the Service's address family (ipv4)", "?route=nodeport:NODE"},
		"no load balancer":         {clusterIPService, "loadbalancer", nil, "it is of type ClusterIP", "clusterip"},
		"no address yet":           {pending, "loadbalancer", nil, "status.loadBalancer is empty", "kubectl describe service web"},
		"no external IP":           {clusterIPService, "externalip", nil, "spec.externalIPs is empty", "clusterip"},
		"no IPv6":                  {clusterIPService, "ipv6", nil, "its address family is ipv4", "clusterip, ipv4"},
		"no IPv4":                  {onlyIPv6, "ipv4", nil, "its address family is ipv6", "clusterip, ipv6"},
		"headless by cluster IP":   {headlessService, "clusterip", nil, "it is headless", "headless, ipv4"},
		"cluster IP as headless":   {clusterIPService, "headless", nil, "it has a cluster IP", "clusterip"},
		"ExternalName by an IP":    {externalName, "clusterip", nil, "it is of type ExternalName", "it has externalname"},
		"ExternalName by a family": {externalName, "ipv4", nil, "it is of type ExternalName", "it has externalname"},
		"no ExternalName":          {clusterIPService, "externalname", nil, "it is of type ClusterIP", "clusterip"},
		"many nodes":               {nodePortService, "nodeport", manyNodes(51), "has 51 addresses by these routes", "nodeport:node1,nodeport:node2"},
	} {
		_, err := describeBy(t, test.service, test.routes, test.objects...)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), test.what) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%s: error %q, hint %q; want %q, %q", name, err, hint.Of(err), test.what, test.hint)
		}
	}
}

func manyNodes(n int) (nodes []runtime.Object) {
	for i := range n {
		nodes = append(nodes, nodeAt(fmt.Sprintf("node%d", i), fmt.Sprintf("172.30.1.%d", i)))
	}
	return nodes
}

// Only who may list nodes can measure node ports.
func TestNodePortsNeedTheRightToNodes(t *testing.T) {
	client := fake.NewSimpleClientset(nodePortService, slice("web-a", endpointOf(pod(1), ready)))
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden("nodes") })
	_, err := Describe(t.Context(), kubetest.Client(client), "shop", "web", Asked{Routes: []AskedRoute{{Name: "nodeport"}}})
	if err == nil {
		t.Fatal("no error")
	}
	checkHint(t, err, "no right to list nodes", "kubectl auth can-i list nodes")
	if _, err := Describe(t.Context(), kubetest.Client(client), "shop", "web", Asked{}); err != nil {
		t.Errorf("the cluster IP needs no node: %v", err)
	}
}

// Pods of a headless Service that listen on different numbers cannot be asked without SRV records.
func TestHeadlessServiceWithSeveralNumbersForAPortIsRefused(t *testing.T) {
	one, other := int32(8080), int32(9090)
	client := fake.NewSimpleClientset(headlessService,
		with(slice("web-a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = &one }),
		with(slice("web-b", endpointOf(pod(2), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = &other }))
	_, err := Describe(t.Context(), kubetest.Client(client), "shop", "web", Asked{})
	if err == nil {
		t.Fatal("no error")
	}
	checkHint(t, err, "different numbers for port http: 8080, 9090", "SRV")
}

// What a pass says nothing of is said, and nothing is said where it says it all.
func TestWhatAPassDoesNotCoverIsSaid(t *testing.T) {
	spec := func(base *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
		return with(base.DeepCopy(), func(s *corev1.Service) { change(&s.Spec) })
	}
	affinity := func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }
	const (
		turns    = "the Service is headless: each connection looked up its name and took the next address; a client that caches addresses for longer may dial Pods that are gone"
		nodePort = "the node port (30080) was not measured: ?route=nodeport measures it on every node"
		onePod   = "sessionAffinity ClientIP: each prober reached only one Pod; the others were not measured"
	)
	for name, test := range map[string]struct {
		service *corev1.Service
		routes  string
		want    []string
	}{
		"ClusterIP":              {clusterIPService, "", nil},
		"headless":               {headlessService, "", []string{turns}},
		"affinity":               {spec(service(), affinity), "", []string{onePod}},
		"affinity of a headless": {spec(headlessService, affinity), "", []string{turns}},
		"NodePort":               {nodePortService, "", []string{nodePort}},
		"NodePort, all":          {nodePortService, "nodeport", nil},
		"NodePort, some":         {nodePortService, "nodeport:node2", []string{"the node ports of these nodes were not measured: node1"}},
		"LoadBalancer":           {loadBalancer, "", []string{nodePort, "the load balancer's address was not measured: ?route=loadbalancer measures it"}},
		"LoadBalancer, pending":  {pending, "nodeport", []string{"the Service is of type LoadBalancer but has no load balancer's address: none was measured"}},
		"LoadBalancer, asked": {loadBalancer, "loadbalancer,nodeport", []string{
			"inside the cluster, kube-proxy answers for the load balancer's address (ipMode VIP): only a prober outside measures the load balancer itself",
		}},
		"LoadBalancer, a proxy": {with(loadBalancer.DeepCopy(), func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: new(corev1.LoadBalancerIPModeProxy)}, {Hostname: "lb.example.org"}}
		}), "loadbalancer,nodeport", nil},
		"externalIPs":        {externalIPs, "", []string{"the external IPs were not measured: ?route=externalip measures them"}},
		"externalIPs, asked": {externalIPs, "externalip", []string{"inside the cluster, kube-proxy answers for external IPs: only a prober outside measures the way to them"}},
		"ExternalName":       {externalName, "", []string{"the Service only names db.example.org: it has no endpoints, so Lapse does not know which Pods answer, and finds no cause in them"}},
		"no selector":        {byHand, "", []string{"the Service has no selector: its endpoints are made by hand or by another controller, and what is behind them is not watched"}},
		"Local within": {spec(service(), func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }), "", []string{
			"internalTrafficPolicy Local: requests go only to endpoints on the prober's own node, and are dropped where there is none: node1 has 1, no other node has any",
		}},
		"Local from outside": {spec(nodePortService, func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }), "nodeport", []string{
			"externalTrafficPolicy Local: requests from outside go only to endpoints on the node they reach, but requests from Pods may go to any node: node1 has 1, no other node has any",
		}},
		"distribution": {spec(service(), func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferSameZone") }), "", []string{
			"trafficDistribution PreferSameZone: requests go only to Pods near the prober's node while there are any; --from all measures from every node",
		}},
		"published early":       {spec(service(), func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }), "", []string{"publishNotReadyAddresses: endpoints count as ready even while their Pods are not"}},
		"dual stack":            {dualStack, "", []string{"the Service has two address families, and connections used the first address of its name that accepted them: ?route=ipv4,ipv6 measures both"}},
		"dual stack, one":       {dualStack, "ipv4", []string{"the Service has two address families, but only ipv4 was measured: ?route=ipv4,ipv6 measures both"}},
		"dual stack, both":      {dualStack, "ipv4,ipv6", nil},
		"dual stack, headless":  {dualHeadless, "", []string{turns, "the Service has two address families, and connections used only a family that the prober has a route for: ?route=ipv4,ipv6 measures both"}},
		"dual stack, node port": {dualNodePort, "nodeport", nil},
	} {
		info, err := describeBy(t, test.service, test.routes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, info.Service.NotCovered); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What is asked from outside of the cluster is covered, and says nothing of what is asked within.
func TestWhatIsAskedFromOutsideIsCovered(t *testing.T) {
	local := with(nodePortService.DeepCopy(), func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	for name, test := range map[string]struct {
		service *corev1.Service
		routes  []AskedRoute
		want    []string
	}{
		"node ports":          {local, nil, nil},
		"a load balancer":     {loadBalancer, nil, []string{"the node port (30080) was not measured: ?route=nodeport measures it on every node"}},
		"one within, besides": {nodePortService, []AskedRoute{{"nodeport", "node2"}}, []string{"the node ports of these nodes were not measured: node1"}},
	} {
		client := kubetest.Client(fake.NewSimpleClientset(nodeAt("node1", "172.30.0.1"), nodeAt("node2", "172.30.0.2"), test.service, slice("web-a", endpointOf(pod(1), ready))))
		info, err := Describe(t.Context(), client, "shop", "web", Asked{Routes: test.routes, Outside: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, info.Service.NotCovered); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A client outside of the cluster takes the best way in that the Service has, or the outer ones that were asked for.
func TestClientsOutsideComeByTheOuterWays(t *testing.T) {
	far := with(nodeAt("node1", "172.30.0.1"), func(n *corev1.Node) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.1"})
	})
	for name, test := range map[string]struct {
		service *corev1.Service
		routes  string
		want    string
	}{
		"a load balancer first":    {loadBalancer, "", "loadbalancer 192.0.2.1 → 192.0.2.1:80, loadbalancer lb.example.org → lb.example.org:80"},
		"then the external IPs":    {with(nodePortService.DeepCopy(), func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.9"} }), "", "externalip → 192.0.2.9:80"},
		"then node ports":          {nodePortService, "", "nodeport node1 → 203.0.113.1:30080 of node1, nodeport node2 → 172.30.0.2:30080 of node2"},
		"of a pending balancer":    {pending, "", "nodeport node1 → 203.0.113.1:30080 of node1, nodeport node2 → 172.30.0.2:30080 of node2"},
		"or what was asked for":    {loadBalancer, "clusterip,nodeport:node2", "nodeport node2 → 172.30.0.2:30080 of node2"},
		"and no inner way":         {nodePortService, "clusterip", "nodeport node1 → 203.0.113.1:30080 of node1, nodeport node2 → 172.30.0.2:30080 of node2"},
		"a cluster IP has none":    {clusterIPService, "", `Service "web" has no address outside of the cluster: it has clusterip, ipv4`},
		"nor a headless Service":   {headlessService, "", `Service "web" has no address outside of the cluster: it has headless, ipv4`},
		"an unassigned one either": {pending, "loadbalancer", `Service "web" has no load balancer's address yet: status.loadBalancer is empty`},
	} {
		client := kubetest.Client(fake.NewSimpleClientset(far, nodeAt("node2", "172.30.0.2"), test.service))
		var asked Asked
		if test.routes != "" {
			asked.Routes, _ = ParseRoutes(test.routes)
		}
		ways, err := OutsideWays(t.Context(), client, "shop", "web", asked)
		var got []string
		for _, w := range ways {
			got = append(got, wayText(w))
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, ", "), test.want)
		}
	}
}
