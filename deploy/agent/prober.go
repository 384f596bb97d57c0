package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"lapse/timeline"
)

// A ProberService is a session of a prober: what it measures for one coordinator, with a recording of its own.
type ProberService interface {
	Recorded
	// Assign begins to measure. The same assignment again does nothing. One of another source is measured in addition,
	// if the session can have several.
	Assign(Assignment) error
	SetRates([]Rate) error // of assigned targets; each change is a fact
	// End stops measuring a source, or all of them if it is 0: then the recording ends when the last answers are there.
	End(reason string, source timeline.SourceID) error
}

// A FindSession function returns the API of a coordinator's session, as [SessionAPI] returns it. The coordinator is
// empty for that of a run. With join, it begins a session if the coordinator has none that it can join. The caller
// calls over when the request is answered. If the error is a [RefusedError], it has the answer's status.
type FindSession func(coordinator string, join bool) (api http.Handler, over func(), err error)

// NewProberServer returns a server of a prober's API. config decides who may call it. A coordinator joins with a
// GET /v1/status that names no process. Every other request is about a session that is there.
func NewProberServer(find FindSession, config *tls.Config) *http.Server {
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		join := r.Method == http.MethodGet && r.URL.Path == "/v1/status" && r.Header.Get(headerProcess) == ""
		api, over, err := find(r.Header.Get(headerCoordinator), join)
		if err != nil {
			status, message := http.StatusInternalServerError, err
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				status, message = refused.Status, errors.New(refused.Message)
			}
			fail(w, status, message)
			return
		}
		if r.URL.Path == "/v1/facts" { // goes on for long when who reads it is gone, and is no sign of life
			over()
		} else {
			defer over()
		}
		api.ServeHTTP(w, r)
	}))
	server.TLSConfig = config
	return server
}

// SessionAPI returns the API of a session.
func SessionAPI(service ProberService) http.Handler {
	v1 := recordedAPI(service)
	v1.HandleFunc("POST /v1/assignment", taking(service.Assign))
	v1.HandleFunc("POST /v1/rates", taking(service.SetRates))
	v1.HandleFunc("POST /v1/end", taking(func(end endBody) error { return service.End(end.Reason, end.Source) }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if meant := r.Header.Get(headerProcess); meant != "" && meant != service.Status().Process {
			fail(w, http.StatusConflict, errors.New("the prober was restarted: this is another process"))
			return
		}
		v1.ServeHTTP(w, r)
	})
}

// proberConns is how many connections a client of a prober has: for the recording, the comparison of clocks, and calls.
const proberConns = 4

// NewProberClient returns a client of the prober at an address.
func NewProberClient(at netip.AddrPort, config *tls.Config) *Client {
	c := NewClient((&net.Dialer{Timeout: 5 * time.Second}).DialContext)
	connections := c.http.Transport.(*http.Transport)
	connections.TLSClientConfig = config
	// Calls about many Services at once wait for a connection: to open one costs more than a call.
	connections.MaxConnsPerHost, connections.MaxIdleConnsPerHost = proberConns, proberConns
	c.base = "https://" + at.String()
	return c
}

// Only makes all further calls fail unless this process answers.
func (c *Client) Only(process string) { c.process = process }

// Assign tells a prober what to measure.
func (c *Client) Assign(ctx context.Context, a Assignment) error {
	return c.call(ctx, http.MethodPost, "/v1/assignment", nil, a, nil)
}

// SetRates tells a prober how often to ask from now on.
func (c *Client) SetRates(ctx context.Context, rates []Rate) error {
	return c.call(ctx, http.MethodPost, "/v1/rates", nil, rates, nil)
}

// End tells a prober to stop measuring a source, or all of them if it is 0: then its recording ends.
func (c *Client) End(ctx context.Context, reason string, source timeline.SourceID) error {
	return c.call(ctx, http.MethodPost, "/v1/end", nil, endBody{reason, source}, nil)
}

// The names in the certificates of a run.
const (
	ProberName      = "prober.lapse"
	CoordinatorName = "coordinator.lapse"
)

// A KeyPair is the identity of one side of mutual TLS, and the authority it trusts, in PEM form.
type KeyPair struct{ CA, Cert, Key []byte }

// Server returns a prober's TLS configuration: it accepts only the run's coordinator.
func (k KeyPair) Server() (*tls.Config, error) {
	pair, pool, err := k.parse()
	if err != nil {
		return nil, err
	}
	isCoordinator := func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(CoordinatorName) }
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{pair},
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        pool,
		VerifyConnection: isCoordinator,
	}, nil
}

// Client returns the coordinator's TLS configuration for requests to probers.
func (k KeyPair) Client() (*tls.Config, error) {
	pair, pool, err := k.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ServerName:   ProberName,
	}, nil
}

func (k KeyPair) parse() (tls.Certificate, *x509.CertPool, error) {
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil {
		return pair, nil, fmt.Errorf("the key and its certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(k.CA) {
		return pair, nil, errors.New("the authority: no certificate in it")
	}
	return pair, pool, nil
}
