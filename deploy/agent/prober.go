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
)

// A ProberService is the process behind a prober's API.
type ProberService interface {
	Recorded
	Assign(Assignment) error // begins to measure; the same assignment again does nothing, another one fails
	SetRates([]Rate) error   // of assigned targets; each change is a fact
	End(reason string) error // stops measuring: the recording ends when the last answers are there
}

// NewProberServer returns a server of a prober's API. config decides who may call it.
func NewProberServer(service ProberService, config *tls.Config) *http.Server {
	v1 := recordedAPI(service)
	v1.HandleFunc("POST /v1/assignment", taking(service.Assign))
	v1.HandleFunc("POST /v1/rates", taking(service.SetRates))
	v1.HandleFunc("POST /v1/end", reasoned(service.End))
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if meant := r.Header.Get(headerProcess); meant != "" && meant != service.Status().Process {
			fail(w, http.StatusConflict, errors.New("the prober was restarted: this is another process"))
			return
		}
		v1.ServeHTTP(w, r)
	}))
	server.TLSConfig = config
	return server
}

// NewProberClient returns a client of the prober at an address.
func NewProberClient(at netip.AddrPort, config *tls.Config) *Client {
	c := NewClient((&net.Dialer{Timeout: 5 * time.Second}).DialContext)
	c.http.Transport.(*http.Transport).TLSClientConfig = config
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

// End tells a prober to stop measuring.
func (c *Client) End(ctx context.Context, reason string) error {
	return c.call(ctx, http.MethodPost, "/v1/end", nil, reasonBody{reason}, nil)
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
		return pair, nil, fmt.Errorf("the run's key: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(k.CA) {
		return pair, nil, errors.New("the run's authority: no certificate in it")
	}
	return pair, pool, nil
}
