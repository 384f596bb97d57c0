package screen

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"lapse/dashboard"
	"lapse/internal/run/exit"
)

// An Address is where the page will be served. It is bound before anything is created or measured, so that an address
// in use is found in time. The nil address is that of a run without a page.
type Address struct {
	ln    net.Listener
	given string // the host as the user wrote it, by which a browser asks for the page
}

// Listen binds addr, or nothing if it is empty.
//
// It refuses an address that stands for all addresses of this machine ("0.0.0.0", "[::]", ":8080"): the page answers
// only to names that it knows, so that a page of another site cannot read it through a name that leads here.
func Listen(addr string) (*Address, error) {
	if addr == "" {
		return nil, nil
	}
	const hint = "as in --dashboard 127.0.0.1:8080"
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, exit.Usagef(hint, "--dashboard %s: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.Unmap().IsUnspecified() {
		const one = "name one address of this machine, as in --dashboard 127.0.0.1:%s or --dashboard %s:%[1]s"
		const all = "--dashboard %s: the page answers only to an address that it knows by name, " +
			"and this means all of them"
		return nil, exit.Usagef(fmt.Sprintf(one, port, reachableAddress()), all, addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, exit.Usagef("give another --dashboard address, such as 127.0.0.1:0", "serve the page: %w", err)
	}
	return &Address{ln: ln, given: host}, nil
}

// reachableAddress returns an address of this machine that others may reach.
func reachableAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "192.0.2.10"
}

// Close releases the address, if nothing is served there any more.
func (a *Address) Close() {
	if a != nil {
		a.ln.Close()
	}
}

// Serve serves a page until the returned function is called. The nil address serves none, and returns a nil page.
func (a *Address) Serve(ctx context.Context, stderr io.Writer) (*Page, func()) {
	if a == nil {
		return nil, func() {}
	}
	p := NewPage()
	options := p.options()
	options.Hosts = []string{a.given}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := dashboard.Serve(ctx, a.ln, p.store, options); err != nil {
			fmt.Fprintf(stderr, "lapse: %v\n", err)
		}
	})
	fmt.Fprintf(stderr, "page: %s\n", a.url())
	return p, func() { cancel(); serving.Wait() }
}

// ServeFolder serves several runs until ctx ends.
func (a *Address) ServeFolder(ctx context.Context, stderr io.Writer, folder dashboard.Folder) error {
	fmt.Fprintf(stderr, "page: %s\n", a.url())
	return dashboard.ServeFolder(ctx, a.ln, folder, dashboard.Options{Hosts: []string{a.given}})
}

// ServeHandler serves the pages of h until ctx ends.
func (a *Address) ServeHandler(ctx context.Context, stderr io.Writer, h http.Handler) error {
	fmt.Fprintf(stderr, "page: %s\n", a.url())
	return dashboard.ServeHandler(ctx, a.ln, h, dashboard.Options{Hosts: []string{a.given}})
}

// url returns what to open in a browser: the name that was given, with the port that is bound.
func (a *Address) url() string {
	_, port, _ := net.SplitHostPort(a.ln.Addr().String())
	return "http://" + net.JoinHostPort(a.given, port) + "/"
}
