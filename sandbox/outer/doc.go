// Package outer is what stands outside of the sandbox's nodes and leads requests to them, as a cloud's load balancer
// and an ingress do: both learn later than a node's own routes what has become of a node or a Pod.
//
// The load balancer ([Balance]) gives every Service of type LoadBalancer an address. It works on packets: netfilter
// rules in a network namespace of its own send each new connection to the node port of one of the nodes, and
// connection tracking keeps it there. What a client sees of a dead node is therefore what the node itself answers, or
// its silence. Which nodes get new connections is a matter of [Config]: health checks, how long what left is kept,
// how often the API server is asked.
//
// The ingress ([Proxy]) is HAProxy and a controller that writes its configuration from Ingress and EndpointSlice
// objects, at most once in an interval. HAProxy, because its reload loses nothing, its retries are a number (0 shows
// the lag as 503, 2 hides it as most ingresses do), it speaks HTTP/2 to both sides, and Debian has it. Traefik's lag is
// no setting and its module has a hundred dependencies; nginx closes clients' idle connections when it reloads; Caddy's
// controller and Envoy are not in Debian.
//
// Pool, rules, frontends and the configuration are pure; balancer.go, proxy.go and check.go are the rim.
package outer
