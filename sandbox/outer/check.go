package outer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ask does one health check of a node; nil is healthy.
func ask(ctx context.Context, addr netip.Addr, f *Frontend, timeout time.Duration) error {
	if !addr.IsValid() {
		return errors.New("the node has no address of the Service's family")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	port := f.Check.Port
	if f.Check.NodePort {
		port = f.Ports[0].NodePort
	}
	where := netip.AddrPortFrom(addr, port).String()
	if !f.Check.HTTP {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", where)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+where+f.Check.Path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", where, resp.Status)
	}
	return nil
}
