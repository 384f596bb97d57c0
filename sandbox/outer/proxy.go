package outer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// ProxyConfig is how the ingress behaves.
type ProxyConfig struct {
	Interval time.Duration // how often the API server is asked; the proxy follows a change so late at most
	Retries  int           // of a connection to a Pod that fails, with another Pod; 0: the client gets the 503 at once
	Connect  time.Duration // how long it waits for a connection to a Pod; then that has failed

	Listen  []netip.Addr
	Program string // HAProxy
	Env     []string
	Dir     string // for its configuration and its sockets
}

// DefaultProxy polls, as some ingress controllers do, and hides no failed connection behind another try.
var DefaultProxy = ProxyConfig{Interval: 2 * time.Second, Connect: time.Second}

// Validate returns what is wrong, by the flag's name.
func (c ProxyConfig) Validate() error {
	switch {
	case c.Interval < 10*time.Millisecond:
		return fmt.Errorf("--reload-interval %v: want 10ms or more", c.Interval)
	case c.Connect < time.Millisecond:
		return fmt.Errorf("--connect-timeout %v: want 1ms or more", c.Connect)
	case c.Retries < 0 || c.Retries > 10:
		return fmt.Errorf("--retries %d: choose 0 to 10", c.Retries)
	}
	return nil
}

func (c ProxyConfig) file() string   { return filepath.Join(c.Dir, "haproxy.cfg") }
func (c ProxyConfig) socket() string { return filepath.Join(c.Dir, "haproxy.sock") }

// Proxy runs the ingress in the network namespace it is called in, until the context ends. It writes to the file
// state what [ProxyStatus] reads.
func Proxy(ctx context.Context, c ProxyConfig, api API, state string, talk io.Writer, log *slog.Logger) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	p := &proxy{ProxyConfig: c, api: api, state: state, log: log}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for p.text == "" {
		if err := p.follow(ctx); err != nil {
			log.Warn("the API server does not answer", "err", err)
		}
		if p.text != "" {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	err := p.serve(ctx, tick.C, talk)
	_ = os.Remove(state)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, LeaveIngress(ctx, api, c.Listen))
}

type proxy struct {
	ProxyConfig
	api    API
	state  string
	log    *slog.Logger
	text   string // the configuration in force
	status ProxyStatus
}

// serve runs HAProxy and has it reload when the configuration has changed: connections go on in the old worker.
func (p *proxy) serve(ctx context.Context, tick <-chan time.Time, talk io.Writer) error {
	runtime.LockOSThread() // HAProxy ends with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.Program, "-W", "-f", p.file())
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = talk, talk
	cmd.SysProcAttr = endsWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		close(ended)
	}()
	defer func() { // whatever serve returns for
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for range ended { // how it ended is what serve returns, or nobody asks
		}
	}()
	if err := p.write(); err != nil {
		return err
	}
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("haproxy ended: %w", err)
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := <-ended; err != nil && !endedBySignal(err) {
				return fmt.Errorf("haproxy ended: %w", err)
			}
			return nil
		case <-tick:
			before := p.text
			if err := p.follow(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("the API server does not answer: what is known is kept", "err", err)
			}
			if p.text == before {
				continue
			}
			if err := cmd.Process.Signal(syscall.SIGUSR2); err != nil {
				return err
			}
			p.status.Reloads++
			p.log.Info("reload", "number", p.status.Reloads)
			if err := p.write(); err != nil {
				return err
			}
		}
	}
}

// follow asks the API server, and writes the configuration again if it has changed.
func (p *proxy) follow(ctx context.Context) error {
	var ingresses ingressList
	var services serviceList
	var endpoints sliceList
	for path, into := range map[string]any{
		"/apis/networking.k8s.io/v1/ingresses":     &ingresses,
		"/api/v1/services":                         &services,
		"/apis/discovery.k8s.io/v1/endpointslices": &endpoints,
	} {
		if err := p.api.Get(ctx, path, into); err != nil {
			return err
		}
	}
	p.publish(ctx, ingresses)
	rules := rulesOf(ingresses, services, endpoints)
	text := configuration(rules, p.ProxyConfig)
	if text == p.text {
		return nil
	}
	if err := os.WriteFile(p.file(), []byte(text), 0o600); err != nil {
		return err
	}
	p.text, p.status.Routes = text, nil
	for _, r := range rules {
		servers := []string{}
		for _, s := range r.To.Servers {
			servers = append(servers, s.Name)
		}
		p.status.Routes = append(p.status.Routes, RouteStatus{r.Host, r.Path, r.To.Name, servers})
		p.log.Info("route", "host", r.Host, "path", r.Path, "to", r.To.Name, "servers", servers)
	}
	return nil
}

// publish writes the ingress's addresses into the status of Ingresses that lack them.
func (p *proxy) publish(ctx context.Context, ingresses ingressList) {
	for _, in := range ingresses.Items {
		var has []string
		for _, entry := range in.Status.LoadBalancer.Ingress {
			has = append(has, entry.IP)
		}
		if !in.ours() || slices.Equal(has, texts(p.Listen)) {
			continue
		}
		if err := publishIngress(ctx, p.api, in, texts(p.Listen)); err != nil {
			p.log.Warn("write the Ingress's status", "ingress", in.Metadata.Namespace+"/"+in.Metadata.Name, "err", err)
		}
	}
}

func publishIngress(ctx context.Context, api API, in ingress, addrs []string) error {
	var entries []map[string]string // null takes the field out
	for _, a := range addrs {
		entries = append(entries, map[string]string{"ip": a})
	}
	const path = "/apis/networking.k8s.io/v1/namespaces/%s/ingresses/%s/status"
	status := map[string]any{"loadBalancer": map[string]any{"ingress": entries}}
	return api.Patch(ctx, fmt.Sprintf(path, in.Metadata.Namespace, in.Metadata.Name), map[string]any{"status": status})
}

// LeaveIngress takes the ingress's addresses out of the Ingresses' status, also those of one that was killed.
func LeaveIngress(ctx context.Context, api API, listen []netip.Addr) error {
	var ingresses ingressList
	err := api.Get(ctx, "/apis/networking.k8s.io/v1/ingresses", &ingresses)
	for _, in := range ingresses.Items {
		if slices.ContainsFunc(in.Status.LoadBalancer.Ingress,
			func(entry struct{ IP string }) bool { return slices.Contains(texts(listen), entry.IP) }) {
			err = errors.Join(err, publishIngress(ctx, api, in, nil))
		}
	}
	return err
}

// ProxyStatus is what the ingress does at the moment.
type ProxyStatus struct {
	Addrs   []netip.Addr  `json:"addresses"`
	Reloads int           `json:"reloads"`
	Routes  []RouteStatus `json:"routes"`
}

// RouteStatus is a rule and the Pods it leads to.
type RouteStatus struct {
	Host    string   `json:"host,omitempty"`
	Path    string   `json:"path"`
	To      string   `json:"to"`
	Servers []string `json:"servers"`
}

func (p *proxy) write() error {
	p.status.Addrs = p.Listen
	data, err := json.MarshalIndent(p.status, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(p.state, data)
}

func writeWhole(path string, data []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// endedBySignal reports whether a process was ended by a signal, or by itself because of one.
func endedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	const bySIGTERM = 128 + int(syscall.SIGTERM)
	return exit.ExitCode() == -1 || exit.ExitCode() == bySIGTERM
}
