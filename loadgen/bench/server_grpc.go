package main

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A grpcServer is grpc-go's with the health check. It notes arrivals, and cuts connections as planned: by closing
// them instead of answering.
type grpcServer struct {
	net.Listener
	plan serverPlan

	mu     sync.Mutex
	conns  map[string]*grpcConn // by the client's address
	reused int                  // requests on connections that had served one
	report serverReport
}

type grpcConn struct {
	net.Conn
	served int
}

// serveGRPC is the server's process, as serve is of HTTP/1.1.
func serveGRPC(plan serverPlan, in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &grpcServer{Listener: listener, plan: plan, conns: map[string]*grpcConn{}}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	healthpb.RegisterHealthServer(server, health.NewServer())
	if err := json.NewEncoder(out).Encode(listener.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // until it is closed
		server.Stop()
	}()
	if err := server.Serve(s); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return gob.NewEncoder(out).Encode(s.report)
}

func (s *grpcServer) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c.RemoteAddr().String()] = &grpcConn{Conn: c}
	return c, nil
}

func (s *grpcServer) intercept(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error) {
	p, ok := grpcpeer.FromContext(ctx)
	if ok && s.note(p.Addr.String()) {
		<-ctx.Done() // the connection is closed: no answer leaves
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return handle(ctx, in)
}

// note notes a request, and closes its connection if it is to be cut.
func (s *grpcServer) note(addr string) (cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Arrivals = append(s.report.Arrivals, arrival{Read: monotonic()})
	c := s.conns[addr]
	if c == nil {
		return false
	}
	if c.served++; c.served == 1 {
		return false
	}
	s.reused++
	if !s.plan.cuts(s.reused) {
		return false
	}
	s.report.Cuts++
	delete(s.conns, addr)
	_ = c.Close()
	return true
}
