package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lapse/timeline"
)

// Caddy serves HTTP/2 with and without TLS, and passes gRPC on.
func TestCaddy(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	_, backend := grpcServer(t)
	plain, secure := freeAddr(t), freeAddr(t)
	site := fmt.Sprintf(`{
		header X-Pod pod-a
		@grpc path /grpc.health.v1.Health/*
		reverse_proxy @grpc h2c://%s
		@gone path /shop.Cart/*
		reverse_proxy @gone h2c://127.0.0.1:1
		respond / "hello from Caddy"
	}
`, backend)
	config := fmt.Sprintf("{\n admin off\n auto_https off\n servers {\n protocols h1 h2 h2c\n }\n}\nhttp://%s %s\nhttps://%s {\n tls %s %s\n respond / \"hello\"\n @grpc path /grpc.health.v1.Health/*\n reverse_proxy @grpc h2c://%s\n}\n",
		plain, site, secure, certFile, keyFile, backend)
	path := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, func() bool { return listens(plain)() && listens(secure)() }, debians(t, "caddy", "usr/bin/caddy"), "run", "--adapter", "caddyfile", "--config", path)
	tests := []struct {
		name, url, method string
		class             timeline.Class
		says              string
	}{
		{"HTTP/2", "h2c://" + plain + "/", "", timeline.OK, ""},
		{"HTTP/2 over TLS", "h2://" + secure + "/", "", timeline.OK, ""},
		{"a gRPC server behind it", "grpc://" + plain, "", timeline.OK, ""},
		{"over TLS", "grpcs://" + secure + "/shop.Cart", "", timeline.OK, ""},
		{"one that is not there", "grpc://" + plain, "shop.Cart/Get", timeline.HTTP5xx, "http_5xx: status 502 Bad Gateway, in HTTP and not in gRPC"},
	}
	for _, test := range tests {
		for _, kind := range kinds {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(kind, test.url)
				p.RootCAs, p.GRPCMethod = roots, test.method
				allAre(t, p, test.class, test.says)
			})
		}
	}
}
