package main

import (
	"io"
	"net/http"
	"testing"
)

// http2Without is a client that speaks HTTP/2 without TLS from its first byte on.
func http2Without() *http.Client {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: &only}}
}

func TestH2CIsServedBesideHTTP1(t *testing.T) {
	w := startProcess(t, "--h2c")
	resp, err := http2Without().Get("http://" + w.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.Header.Get("X-Pod") != "web-1" {
		t.Errorf("%s, X-Pod %q", resp.Proto, resp.Header.Get("X-Pod"))
	}
	if got := status(t, w, "/"); got != 200 {
		t.Errorf("HTTP/1.1: %d", got)
	}
	if _, err := http2Without().Get("http://" + startProcess(t).addr + "/"); err == nil {
		t.Error("h2c is served without --h2c")
	}
}

// GOAWAY takes the place of `Connection: close`: each request to a draining server needs a connection of its own.
func TestDrainingHTTP2SendsGOAWAY(t *testing.T) {
	for _, ends := range []string{"warn", "cut"} {
		w := startProcess(t, "--h2c", "--on-sigterm", "graceful", "--drain-for", "1h", "--ends", ends)
		client := http2Without()
		get := func() {
			resp, err := client.Get("http://" + w.addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // to its end: a body closed before would reset the stream
			resp.Body.Close()
		}
		get()
		w.terminate(t)
		before := w.counts(t, func(c Count) bool { return c.Draining }).Connections
		for range 4 {
			get()
		}
		after := w.counts(t, func(c Count) bool { return c.Served == 5 }).Connections
		if opened := after - before; ends == "warn" && opened < 3 || ends == "cut" && opened > 2 {
			t.Errorf("--ends %s: 4 requests took %d new connections", ends, opened)
		}
	}
}
