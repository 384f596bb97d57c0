package interop

import (
	"testing"

	"lapse/timeline"
)

func TestNode(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	plain, secure, events := freeAddr(t), freeAddr(t), freeAddr(t)
	port := func(addr string) string { return addr[len("127.0.0.1:"):] }
	start(t, func() bool { return listens(plain)() && listens(secure)() && listens(events)() }, "node", "testdata/server.js", port(plain), port(secure), port(events), certFile, keyFile)
	tests := []struct {
		url   string
		class timeline.Class
		says  string
	}{
		{"h2c://" + plain + "/", timeline.OK, ""},
		{"h2://" + secure + "/", timeline.OK, ""},
		{"h2c://" + plain + "/hints", timeline.OK, ""},
		{"h2c://" + plain + "/large", timeline.OK, ""},
		{"h2c://" + plain + "/closing", timeline.OK, ""},
		{"h2c://" + plain + "/reset", timeline.Reset, "reset: RST_STREAM INTERNAL_ERROR"},
		{"grpc://" + plain, timeline.OK, ""},
		{"grpcs://" + secure, timeline.OK, ""},
		{"sse://" + events + "/news", timeline.OK, ""},
		{"grpc://" + events, timeline.Body, "body: malformed reply: the server answers in HTTP/1.1"},
		{"h2://" + plain, timeline.TLS, "tls: first record does not look like a TLS handshake"},
	}
	for _, test := range tests {
		for _, kind := range kinds {
			if kind == timeline.Reused && test.url[:3] == "sse" {
				continue
			}
			t.Run(string(kind)+" "+test.url, func(t *testing.T) {
				t.Parallel()
				p := probe(kind, test.url)
				p.RootCAs, p.Host = roots, "example.com"
				allAre(t, p, test.class, test.says)
			})
		}
	}
}
