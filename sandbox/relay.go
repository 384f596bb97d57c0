package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"lapse/sandbox/problem"
)

// preferredPort is where the host finds the API server, unless something else has it already.
const preferredPort = "16443"

// listenRelay opens the port on the host's loopback that the kubeconfig will name.
func listenRelay() (*net.TCPListener, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+preferredPort)
	if err != nil {
		listener, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, problem.Errorf("no port on 127.0.0.1 for the API server: %v", err)
	}
	return listener.(*net.TCPListener), nil
}

// runRelay is a hidden verb: it passes connections from a listening socket it inherits as file 3 to
// the API server inside the control plane's namespace. It stays in the host's namespace itself.
func runRelay(ctx context.Context, a *app, _ []string) error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		go func() {
			if err := pass(ctx, conn.(*net.TCPConn)); err != nil {
				fmt.Fprintln(a.log, time.Now().Format(time.RFC3339), err)
			}
		}()
	}
}

func pass(ctx context.Context, client *net.TCPConn) error {
	defer client.Close()
	conn, err := dialIn(ctx, controlPlaneNetns, "tcp", net.JoinHostPort(controlPlaneAddr, apiPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	var both sync.WaitGroup
	both.Go(func() { copyAndClose(server, client) })
	both.Go(func() { copyAndClose(client, server) })
	both.Wait()
	return nil
}

// copyAndClose passes on the end of the stream, too: kubectl exec closes one direction first.
func copyAndClose(to, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
}

// dialIn connects from inside a network namespace. The address must be numeric: then the socket is
// made on the calling thread.
func dialIn(ctx context.Context, ns, network, addr string) (conn net.Conn, err error) {
	err = inNetns(ns, func() (err error) {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		conn, err = dialer.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}
