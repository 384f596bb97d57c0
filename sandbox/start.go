package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// How each component is started, and how we know that it works.

const etcdAddr = "127.0.0.1:2379" // loopback of the control plane's namespace: pods do not reach it

func (b *bringer) startEtcd(ctx context.Context) error {
	const peer = "http://127.0.0.1:2380"
	etcd, err := b.start("etcd", inside(controlPlaneNetns), nil, b.bin("etcd"),
		"--name=lapse", "--data-dir="+b.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=https://"+etcdAddr, "--advertise-client-urls=https://"+etcdAddr,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=lapse="+peer,
		"--client-cert-auth", "--trusted-ca-file="+b.pki("etcd-ca.crt"),
		"--cert-file="+b.pki("etcd.crt"), "--key-file="+b.pki("etcd.key"))
	if err != nil {
		return err
	}
	return etcd.until(ctx, 30*time.Second, func(ctx context.Context) error {
		conn, err := dialIn(ctx, controlPlaneNetns, "tcp", etcdAddr)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

func (b *bringer) startAPIServer(ctx context.Context) (err error) {
	if err := b.startEtcd(ctx); err != nil {
		return err
	}
	b.apiServer, err = b.start("kube-apiserver", inside(controlPlaneNetns), nil, b.bin("kube-apiserver"),
		"--advertise-address="+controlPlaneAddr, "--secure-port="+apiPort,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file="+b.pki("ca.crt"),
		"--tls-cert-file="+b.pki("apiserver.crt"), "--tls-private-key-file="+b.pki("apiserver.key"),
		"--etcd-servers=https://"+etcdAddr, "--etcd-cafile="+b.pki("etcd-ca.crt"),
		"--etcd-certfile="+b.pki("apiserver-etcd-client.crt"), "--etcd-keyfile="+b.pki("apiserver-etcd-client.key"),
		"--kubelet-certificate-authority="+b.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+b.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key="+b.pki("apiserver-kubelet-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc."+clusterDomain,
		"--service-account-key-file="+b.pki("service-account.key"),
		"--service-account-signing-key-file="+b.pki("service-account.key"),
		"--service-cluster-ip-range="+b.both(serviceRange, serviceRange6))
	if err != nil {
		return err
	}
	api, err := b.api()
	if err != nil {
		return err
	}
	return b.apiServer.until(ctx, time.Minute, func(ctx context.Context) error {
		return api.get(ctx, "/readyz", nil)
	})
}

func (b *bringer) startControllers() (err error) {
	cp := inside(controlPlaneNetns)
	_, err = b.start("kube-controller-manager", cp, nil, b.bin("kube-controller-manager"),
		"--kubeconfig="+b.config("controller-manager.kubeconfig"), "--leader-elect=false",
		"--use-service-account-credentials",
		"--bind-address=127.0.0.1", "--root-ca-file="+b.pki("ca.crt"),
		"--service-account-private-key-file="+b.pki("service-account.key"),
		"--cluster-cidr="+b.both(podRange, podRange6),
		"--service-cluster-ip-range="+b.both(serviceRange, serviceRange6), "--allocate-node-cidrs=false",
		"--flex-volume-plugin-dir="+b.config("volume-plugins")) // which it makes; the default lies in /usr/libexec
	if err != nil {
		return err
	}
	_, err = b.start("kube-scheduler", cp, nil, b.bin("kube-scheduler"),
		"--kubeconfig="+b.config("scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1")
	if err != nil {
		return err
	}
	b.coreDNS, err = b.start("coredns", cp, nil, b.bin("coredns"), "-conf", b.config("Corefile"))
	return err
}

func (b *bringer) startContainerd(n node) (*daemon, error) {
	// Its own binaries first: it looks up its shim by name.
	path := "PATH=" + filepath.Join(b.runtime, "usr/bin") + ":" + filepath.Join(b.runtime, "usr/sbin") + ":" +
		os.Getenv("PATH")
	return b.start("containerd-"+n.Name, asNode(n, b.nodeRoot(n.Name), b.Dir, b.components, b.runtime), []string{path},
		filepath.Join(b.runtime, "usr/bin/containerd"), "--config="+filepath.Join(b.config(n.Name), "containerd.toml"))
}

func (b *bringer) startNode(n node) error {
	there := beside(b.containerd[n.Name])
	kubelet, err := b.start("kubelet-"+n.Name, there, nil, b.bin("kubelet"),
		"--config="+filepath.Join(b.config(n.Name), "kubelet.yaml"), "--kubeconfig="+b.config(n.Name+".kubeconfig"),
		"--hostname-override="+n.Name, "--node-ip="+b.both(n.Addr.String(), n.Addr6.String()))
	if err != nil {
		return err
	}
	proxy, err := b.start("kube-proxy-"+n.Name, there, nil, b.bin("kube-proxy"),
		"--config="+filepath.Join(b.config(n.Name), "kube-proxy.yaml"))
	b.kubelets, b.proxies = append(b.kubelets, kubelet), append(b.proxies, proxy)
	return err
}

// settle waits until a pod could run anywhere: every node ready, a name resolved from every node through the
// Service address (which proves kube-proxy and CoreDNS), and the account that pods use by default.
func (b *bringer) settle(ctx context.Context) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	tasks := []func(context.Context) error{func(ctx context.Context) error {
		return b.apiServer.until(ctx, time.Minute, func(ctx context.Context) error {
			return api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		})
	}}
	for i, n := range b.nodes() {
		tasks = append(tasks,
			func(ctx context.Context) error {
				return b.kubelets[i].until(ctx, time.Minute,
					func(ctx context.Context) error { return api.nodeReady(ctx, n.Name) })
			},
			func(ctx context.Context) error {
				return b.proxies[i].until(ctx, time.Minute,
					func(ctx context.Context) error { return resolves(ctx, n.Netns) })
			})
	}
	return parallel(ctx, tasks...)
}

// resolves looks up the API server's name through the Service address of the cluster's DNS.
func resolves(ctx context.Context, ns string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialIn(ctx, ns, network, net.JoinHostPort(dnsServiceAddr, "53"))
	}}
	_, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+clusterDomain+".")
	return err
}

// An apiClient asks the API server as the kubeconfig's user; kubectl does everything else.
type apiClient struct {
	base string
	http *http.Client
}

func (s *sandbox) api() (*apiClient, error) {
	return newAPIClient(s.kubeconfig(), "https://"+s.Endpoint)
}

func newAPIClient(kubeconfig, base string) (*apiClient, error) {
	user, err := readKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(user.ca)
	trust := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{user.cert}}
	transport := &http.Transport{TLSClientConfig: trust}
	return &apiClient{base, &http.Client{Transport: transport, Timeout: 5 * time.Second}}, nil
}

func (c *apiClient) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	return c.do(req, path, into)
}

// Get and Patch are what sandbox/outer asks of the API server.
func (c *apiClient) Get(ctx context.Context, path string, into any) error {
	return c.get(ctx, path, into)
}

func (c *apiClient) Patch(ctx context.Context, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	return c.do(req, path, nil)
}

func (c *apiClient) do(req *http.Request, path string, into any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (c *apiClient) nodeReady(ctx context.Context, name string) error {
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.get(ctx, "/api/v1/nodes/"+name, &object); err != nil {
		return err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return errors.New("not ready: " + condition.Message)
	}
	return errors.New("has not reported yet")
}
