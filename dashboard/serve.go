package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"lapse/dashboard/places"
)

const (
	shutdownGrace = 2 * time.Second // how long downloads under way may still take when the server ends
	socketBuffer  = 256 << 10       // bytes the kernel may hold for a client that does not read
)

// Serve shows store on ln until ctx ends, then closes the listener and all viewers and returns nil
// once they are gone. The address ln listens on counts as a known host.
func Serve(ctx context.Context, ln net.Listener, store *Store, opts Options) error {
	opts = knowing(ln, opts)
	handler := newServer(store, opts)
	return serveHandler(ctx, ln, handler, opts, handler.awaitViewers)
}

// ServeHandler serves h on ln as [Serve] serves the page: only to who asks for it by a name that is known.
func ServeHandler(ctx context.Context, ln net.Listener, h http.Handler, opts Options) error {
	opts = knowing(ln, opts)
	return serveHandler(ctx, ln, named(h, opts), opts, func() {})
}

// named returns a handler that answers with h to who asks by a name that is known, with the page's headers.
func named(h http.Handler, opts Options) http.Handler {
	s := newServer(NewStore(), opts)
	s.mux = http.NewServeMux()
	s.mux.Handle("/", h)
	return s
}

// knowing adds the address that ln listens on to the hosts that the page may be asked for by.
func knowing(ln net.Listener, opts Options) Options {
	if host, _, err := net.SplitHostPort(ln.Addr().String()); err == nil {
		opts.Hosts = append([]string{host}, opts.Hosts...)
	}
	return opts
}

// serveHandler serves handler on ln until ctx ends, and waits for all viewers.
func serveHandler(ctx context.Context, ln net.Listener, handler http.Handler, opts Options, awaitViewers func()) error {
	ctx, cancel := context.WithCancel(ctx) // viewers watch it, through their request's context
	defer cancel()
	server := opts.Server(handler)
	server.BaseContext = func(net.Listener) context.Context { return ctx }

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(places.Limit(server, thriftyListener{ln}, cmp.Or(opts.MaxConns, 256))) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = cmp.Or(shutdown(server), <-failed)
	}
	cancel()
	awaitViewers()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page on %s: %w", ln.Addr(), err)
	}
	return nil
}

// shutdown ends the server; requests that outlast the grace are cut off.
func shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return server.Close()
}

// A thriftyListener bounds what the kernel holds for each connection.
type thriftyListener struct{ net.Listener }

func (l thriftyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(socketBuffer) // only thrift: without it things still work
	}
	return conn, err
}
