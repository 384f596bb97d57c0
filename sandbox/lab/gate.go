package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// A gate is the command that Lapse wraps: it tells the runner that it has begun, prints what it is sent, and ends
// with the connection.
type gate struct {
	listener net.Listener
	command  []string
}

const awaitVerb = "await"

func newGate() (*gate, error) {
	dir, err := os.MkdirTemp("", "lapse-lab")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "gate")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return &gate{listener, []string{self, awaitVerb, socket}}, nil
}

func (g *gate) opened() (net.Conn, error) { return g.listener.Accept() }

func (g *gate) close() {
	g.listener.Close()
	os.RemoveAll(filepath.Dir(g.command[2]))
}

// await is the other side of a gate: it prints what it is sent.
func await(socket string, out io.Writer) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := io.Copy(out, conn); err != nil {
		return 1
	}
	return 0
}
