package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"lapse/internal/kube"
)

// A Tunnel leads through the API server to a port on a Pod's own 127.0.0.1, as `kubectl port-forward` does: Kubernetes
// authorizes, and nothing listens on the workstation.
//
// Each connection is a port-forward of its own. So a connection that breaks or gets stuck, because a browser has
// stopped reading, does not affect the others. To reconnect, open another.
type Tunnel struct {
	rest *rest.Config
	api  *kube.API
	pod  *corev1.Pod
	port int
	gone func(context.Context) error
}

// NewTunnel returns a tunnel to port in pod; 0 is [DefaultPort]. If it cannot connect, it calls gone, which returns a
// [GoneError] if the Pod surely does not run any more, else nil.
func NewTunnel(config *rest.Config, pod *corev1.Pod, port int, gone func(context.Context) error) (*Tunnel, error) {
	api, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("tunnel to Pod %s: %w", pod.Name, err)
	}
	return &Tunnel{rest: config, api: api, pod: pod, port: cmp.Or(port, DefaultPort), gone: gone}, nil
}

// Client returns a client of the agent at the tunnel's end.
func (t *Tunnel) Client() *Client { return NewClient(t.DialContext) }

// DialContext opens a connection through the tunnel, and ignores network and address. If the Pod does not run any more,
// the error is a [GoneError].
func (t *Tunnel) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := t.connect(ctx)
	if err == nil {
		return conn, nil
	}
	if gone := t.gone(ctx); gone != nil {
		return nil, gone
	}
	return nil, fmt.Errorf("port-forward to Pod %s: %w", t.pod.Name, err)
}

// dialTimeout is how long one attempt to connect may take.
const dialTimeout = 10 * time.Second

// connect dials in a goroutine, because client-go's dialers take no context. It closes a connection that is too late.
func (t *Tunnel) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no connection within %s", dialTimeout))
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	connected := make(chan result)
	go func() {
		conn, err := t.open()
		select {
		case connected <- result{conn, err}:
		case <-ctx.Done():
			if err == nil {
				conn.Close()
			}
		}
	}()
	select {
	case r := <-connected:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open connects to the API server, by WebSocket or, if that is not supported, by SPDY, and opens the pair of streams of
// one forwarded connection.
func (t *Tunnel) open() (net.Conn, error) {
	dialer, err := t.dialer()
	if err != nil {
		return nil, err
	}
	session, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	conn, err := forward(session, t.port)
	if err != nil {
		session.Close()
		return nil, err
	}
	return conn, nil
}

func (t *Tunnel) dialer() (httpstream.Dialer, error) {
	address := t.url()
	webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, t.rest)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(t.rest)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, address)
	return portforward.NewFallbackDialerForStreaming(webSocket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func (t *Tunnel) url() *url.URL {
	return t.api.PortForward(t.pod.Namespace, t.pod.Name)
}

// forward opens one forwarded connection on session.
func forward(session httpstream.Connection, port int) (net.Conn, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, "0")

	header.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := session.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("open the error stream: %w", err)
	}
	failure.Close() // we write nothing to it

	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := session.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("open the data stream: %w", err)
	}
	conn := &forwarded{session: session, data: data, port: port, failed: make(chan struct{})}
	go conn.watch(failure)
	return conn, nil
}

// forwarded is one connection through a tunnel.
type forwarded struct {
	session httpstream.Connection
	data    httpstream.Stream
	port    int

	failed  chan struct{} // closed when the error stream has ended
	failure error         // what it said; read after failed is closed
}

// watch reads the node's error message, if there is one.
func (c *forwarded) watch(failure io.Reader) {
	defer close(c.failed)
	message, err := io.ReadAll(io.LimitReader(failure, 4096))
	if text := strings.TrimSpace(string(message)); text != "" {
		c.failure = errors.New(text)
	} else if err != nil {
		c.failure = err
	}
	if c.failure != nil {
		_ = c.data.Reset()
	}
}

// Read reads from the Pod. If the node said why the connection ended, it returns that as the error.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	if n > 0 || err == nil {
		return n, nil
	}
	select {
	case <-c.failed:
		return 0, cmp.Or(c.failure, err)
	case <-time.After(100 * time.Millisecond): // the node's message may be on its way
		return 0, err
	}
}

func (c *forwarded) Write(p []byte) (int, error) { return c.data.Write(p) }

// Close ends the connection, and the port-forward with it.
func (c *forwarded) Close() error {
	err := c.session.Close()
	<-c.failed
	return err
}

func (c *forwarded) LocalAddr() net.Addr  { return podAddr{c.port} }
func (c *forwarded) RemoteAddr() net.Addr { return podAddr{c.port} }

// A port-forward has no deadlines. net/http does without them on a client's connection.

func (c *forwarded) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *forwarded) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *forwarded) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type podAddr struct{ port int }

func (podAddr) Network() string  { return "port-forward" }
func (a podAddr) String() string { return "127.0.0.1:" + strconv.Itoa(a.port) }
