//go:build !linux

package truth

import (
	"errors"
	"net"
)

// The sandbox runs on Linux only; saved runs are judged anywhere.
type routeWatch struct {
	node  string
	added map[string]Bracket
}

func watchRoutes(_, _, _, _ string) (*routeWatch, error) {
	return nil, errors.New("netfilter rules are watched on Linux only")
}

func (*routeWatch) end() (map[string]Bracket, error) { return nil, nil }

// DialLoopback connects to a port of 127.0.0.1 in a node's network.
func DialLoopback(string, int) (net.Conn, error) {
	return nil, errors.New("the nodes' networks are entered on Linux only")
}
