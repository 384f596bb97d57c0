// Package plane says where the API servers of a cluster are, and how a run asks them beside its Services.
//
// Each address is asked for /livez, /readyz and a list of one Service, on a connection that is kept. These are targets
// of kind [timeline.Plane]: loadgen asks them and correlate finds when they did not answer, as of any other target. The
// certificate is verified with the cluster's authority, for the name that all Pods use. A refusal, with status 401 or
// 403, is an answer: the server is up.
package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"lapse/internal/kube"
	"lapse/loadgen"
	"lapse/timeline"
)

const (
	// Rate is how often an address is asked for each thing, in requests per second.
	Rate = 5

	// mostServers is the largest number of addresses that are asked.
	mostServers = 9
	// serverName is in the certificate of each API server, because Pods ask for it.
	// https://kubernetes.io/docs/setup/best-practices/certificates/
	serverName = "kubernetes.default.svc"
	findFor    = 5 * time.Second
)

// Servers are the addresses of the API servers themselves.
type Servers struct {
	Addrs    []netip.AddrPort `json:"addrs,omitempty"`
	NotAsked string           `json:"notAsked,omitzero"` // why there are none, or which were left out
}

// Find reads the addresses from the EndpointSlice of Service default/kubernetes.
func Find(ctx context.Context, client kube.Client) Servers {
	ctx, cancel := context.WithTimeout(ctx, findFor)
	defer cancel()
	const name = "kubernetes"
	slice, err := client.EndpointSlices(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	const instead = "; its Service was asked instead, where a connection reaches one API server of all"
	switch {
	case apierrors.IsForbidden(err):
		return Servers{NotAsked: "no right to get EndpointSlice default/" + name + instead}
	case err != nil:
		return Servers{NotAsked: fmt.Sprintf("EndpointSlice default/%s could not be read: %v", name, err) + instead}
	}
	var found Servers
	for _, port := range slice.Ports {
		for _, e := range slice.Endpoints {
			for _, text := range e.Addresses {
				if addr, err := netip.ParseAddr(text); err == nil && port.Port != nil {
					found.Addrs = append(found.Addrs, netip.AddrPortFrom(addr, uint16(*port.Port)))
				}
			}
		}
	}
	slices.SortFunc(found.Addrs, netip.AddrPort.Compare)
	if n := len(found.Addrs); n > mostServers {
		found.Addrs = found.Addrs[:mostServers]
		found.NotAsked = fmt.Sprintf("at most %d addresses are asked, and there are %d", mostServers, n)
	}
	return found
}

// Within reports whether config is a Pod's own way to the API: then the addresses in the EndpointSlice can be dialled.
func Within(config *rest.Config) bool {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	return host != "" && config.Host == "https://"+net.JoinHostPort(host, port)
}

// Probes returns the probes of the servers, with the credentials of config. Without servers it asks the server that
// config names. The list is of a Service of the namespace. An error says why nothing can be asked.
func Probes(config *rest.Config, servers []netip.AddrPort, namespace string) ([]loadgen.Probe, error) {
	base, err := baseOf(config)
	if err != nil {
		return nil, err
	}
	as, err := asking(config, base)
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return probesOf(as, base, namespace), nil
	}
	var probes []loadgen.Probe
	for _, addr := range servers {
		probes = append(probes, probesOf(as, &url.URL{Scheme: "https", Host: addr.String()}, namespace)...)
	}
	for i := range probes {
		probes[i].Host = serverName
	}
	return probes, nil
}

// baseOf returns the URL of the server that config names.
func baseOf(config *rest.Config) (*url.URL, error) {
	text := config.Host
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	base, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	if through, err := proxy(&http.Request{URL: base}); err != nil || through != nil {
		return nil, errors.New("the API server is reached through a proxy")
	}
	return base, nil
}

// asking returns a probe that has nothing but the credentials of config, and whom to trust.
func asking(config *rest.Config, base *url.URL) (p loadgen.Probe, err error) {
	secure, err := rest.TLSConfigFor(config)
	switch {
	case err != nil:
		return p, fmt.Errorf("the cluster's certificates: %w", err)
	case secure != nil && secure.InsecureSkipVerify:
		return p, errors.New("the kubeconfig says insecure-skip-tls-verify, and here certificates are verified")
	case secure != nil:
		p.RootCAs, p.Host, p.ClientCertificate = secure.RootCAs, secure.ServerName, secure.GetClientCertificate
		if own := secure.Certificates; p.ClientCertificate == nil && len(own) > 0 {
			p.ClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own[0], nil }
		}
	}
	p.Header, err = headerOf(config, base)
	p.ExpectStatus = answers
	return p, err
}

// answers are the statuses that show that the server is up.
var answers = func() loadgen.Statuses {
	set, err := loadgen.ParseStatuses("200-399,401,403")
	if err != nil {
		panic(err) // it is a constant
	}
	return set
}()

// headerOf returns the headers by which config authenticates: those that it adds to a request.
func headerOf(config *rest.Config, base *url.URL) (header http.Header, err error) {
	adding, err := rest.HTTPWrappersForConfig(config, roundTripper(func(r *http.Request) { header = r.Header }))
	if err != nil {
		return nil, fmt.Errorf("the cluster's credentials: %w", err)
	}
	request := &http.Request{Method: http.MethodGet, URL: base, Header: http.Header{}}
	response, err := adding.RoundTrip(request.WithContext(context.Background()))
	if err != nil {
		return nil, fmt.Errorf("the cluster's credentials: %w", err)
	}
	return header, response.Body.Close()
}

// A roundTripper sees a request, and answers it with nothing.
type roundTripper func(*http.Request)

func (see roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	see(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// probesOf returns the probes of one address.
func probesOf(as loadgen.Probe, base *url.URL, namespace string) []loadgen.Probe {
	list := as
	list.Header = as.Header.Clone()
	list.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json")
	services := "/api/v1/namespaces/" + namespace + "/services"
	var probes []loadgen.Probe
	for _, of := range []struct {
		loadgen.Probe
		name, path, query string
	}{{as, "livez", "/livez", ""}, {as, "readyz", "/readyz", ""}, {list, "list", services, "limit=1"}} {
		u := base.JoinPath(of.path)
		u.RawQuery = of.query
		of.Target = timeline.Target{
			Name: "API " + base.Host + " " + of.name, Kind: timeline.Plane, URL: u.String(),
			Connections: 1, Rate: Rate,
		}
		of.Probe.Connections = 1
		of.Proves = loadgen.ProofOf(of.Probe).Text
		probes = append(probes, of.Probe)
	}
	return probes
}
