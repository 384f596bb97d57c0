package outer

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config is how the load balancer behaves.
type Config struct {
	Algorithm string // RoundRobin or LeastConnections

	Check     string        // see [ParseCheck]; empty: by the Service's externalTrafficPolicy, as cloud providers do
	Interval  time.Duration // between two checks of a node
	Timeout   time.Duration // of one
	Unhealthy int           // failed checks in a row that make a node unhealthy
	Healthy   int           // good checks in a row that make it healthy
	FailOpen  bool          // where no node is healthy, all get connections

	Sync           time.Duration // between two looks at the API server's Services and Nodes
	Deregistration time.Duration // how long the connections of a node live on that was taken out, or is unhealthy
	Keep           bool          // and then they are not cut either
	// IPMode is VIP, where nodes lead to the address by routes of their own, or Proxy, where they, too, go through the
	// load balancer (KEP-1860).
	IPMode string
}

// What gets a new connection: the nodes in turn, or the one that has the fewest.
const (
	RoundRobin       = "round-robin"
	LeastConnections = "least-connections"
)

// Default is between what cloud providers do (10 s, 2 or 3 checks, 300 s) and what a test can wait for.
var Default = Config{
	Algorithm: RoundRobin, Interval: 2 * time.Second, Timeout: time.Second, Unhealthy: 2, Healthy: 2, FailOpen: true,
	Sync: time.Second, Deregistration: 10 * time.Second, IPMode: "VIP",
}

// Validate returns what is wrong, by the flag's name.
func (c Config) Validate() error {
	switch {
	case c.Algorithm != RoundRobin && c.Algorithm != LeastConnections:
		return fmt.Errorf("--algorithm %q: choose %s or %s", c.Algorithm, RoundRobin, LeastConnections)
	case c.Interval <= 0:
		return fmt.Errorf("--interval %v: want a length of time, such as 2s", c.Interval)
	case c.Timeout <= 0:
		return fmt.Errorf("--check-timeout %v: want a length of time, such as 1s", c.Timeout)
	case c.Unhealthy < 1 || c.Healthy < 1:
		return fmt.Errorf("--unhealthy %d, --healthy %d: want 1 check or more", c.Unhealthy, c.Healthy)
	case c.Sync <= 0:
		return fmt.Errorf("--sync %v: want a length of time, such as 1s", c.Sync)
	case c.IPMode != "VIP" && c.IPMode != "Proxy":
		return fmt.Errorf("--ip-mode %q: choose VIP or Proxy", c.IPMode)
	case c.Deregistration < 0:
		return fmt.Errorf("--deregistration-delay %v is negative", c.Deregistration)
	}
	_, err := ParseCheck(cmp.Or(c.Check, checkNodePort))
	return err
}

// A Check is how a node's health is asked.
type Check struct {
	HTTP     bool   // GET, and 200 is healthy; else a connection is opened
	Port     uint16 // 0: the Service's first node port
	Path     string
	NodePort bool
}

const checkNodePort = "nodeport"

// ParseCheck reads --check:
//
//	nodeport              a connection to the Service's first node port
//	tcp:22                a connection to a port
//	http:10256/healthz    a GET that is answered with 200: here kube-proxy's health
func ParseCheck(text string) (Check, error) {
	if text == checkNodePort {
		return Check{NodePort: true}, nil
	}
	kind, rest, _ := strings.Cut(text, ":")
	number, path, hasPath := strings.Cut(rest, "/")
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 || kind != "http" && kind != "tcp" || kind == "tcp" && hasPath {
		return Check{}, fmt.Errorf("--check %q: want nodeport, tcp:PORT or http:PORT/PATH, such as http:10256/healthz",
			text)
	}
	check := Check{HTTP: kind == "http", Port: uint16(port)}
	if check.HTTP {
		check.Path = "/" + path
	}
	return check, nil
}

func (c Check) String() string {
	switch {
	case c.NodePort:
		return checkNodePort
	case c.HTTP:
		return fmt.Sprintf("http:%d%s", c.Port, c.Path)
	}
	return fmt.Sprintf("tcp:%d", c.Port)
}
