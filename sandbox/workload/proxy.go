package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
)

// proxy passes TCP connections on to another address, as a sidecar does. At SIGTERM it is gone at once, with all its
// connections: what a proxy that does not wait for the application does to it.
//
//	workload proxy --listen :8081 --to 127.0.0.1:8080
func proxy(ctx context.Context, args []string, terminate <-chan os.Signal, log io.Writer) error {
	flags := flag.NewFlagSet("workload proxy", flag.ContinueOnError)
	flags.SetOutput(log)
	listen := flags.String("listen", ":8081", "address to serve on")
	to := flags.String("to", "127.0.0.1:8080", "address to pass connections on to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	socket, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	listener := &stampedListener{Listener: socket, name: "proxy", log: log}
	fmt.Fprintf(log, "proxy listens on %s\n", listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			go passOn(ctx, client.(*net.TCPConn), *to)
		}
	}()
	select {
	case <-terminate:
	case <-ctx.Done():
	}
	return listener.Close() // and the process ends
}

func passOn(ctx context.Context, client *net.TCPConn, to string) {
	defer client.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		_ = client.SetLinger(0) // the client is to see that nobody is there
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
	}()
	_, _ = io.Copy(client, server)
	_ = client.CloseWrite()
	<-done
}

// shell runs the workload as its child and does not pass SIGTERM on (main has asked for it, and nobody acts on it),
// as `sh -c` does when it is process 1 of a container. It ends with its child.
//
//	workload shell --on-sigterm graceful
func shell(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, args...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	err = child.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	return err
}
