package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/timeline"
)

// An nginxServer is Debian's nginx in front of a gRPC server: at plain it speaks HTTP/2 with prior knowledge, at
// secure over TLS, at one HTTP/1.1 alone, there over TLS too.
type nginxServer struct{ plain, secure, one, oneSecure, prefix, program string }

func startNginx(t *testing.T, backend, certFile, keyFile string) nginxServer {
	t.Helper()
	n := nginxServer{freeAddr(t), freeAddr(t), freeAddr(t), freeAddr(t), t.TempDir(), debians(t, "nginx", "usr/sbin/nginx")}
	config := fmt.Sprintf(`
worker_processes 2;
pid nginx.pid;
error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  ssl_certificate %[1]s;
  ssl_certificate_key %[2]s;
  server {
    listen %[3]s http2;
    listen %[4]s ssl http2;
    keepalive_requests 5; # then a GOAWAY
    location / { add_header X-Pod pod-a; return 200 "hello from nginx"; }
    location /grpc.health.v1.Health/ { grpc_pass grpc://%[5]s; }
    location /shop.Cart/ { grpc_pass grpc://127.0.0.1:1; }
  }
  server {
    listen %[6]s;
    listen %[7]s ssl;
    location / { return 200 "hello from nginx"; }
  }
}
`, certFile, keyFile, n.plain, n.secure, backend, n.one, n.oneSecure)
	path := filepath.Join(n.prefix, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, listens(n.plain), n.program, "-p", n.prefix, "-c", path, "-e", "stderr", "-g", "daemon off;")
	return n
}

// reload tells nginx to start new workers and to end the old ones gracefully.
func (n nginxServer) reload(t *testing.T) {
	t.Helper()
	cmd := exec.Command(n.program, "-p", n.prefix, "-c", filepath.Join(n.prefix, "nginx.conf"), "-e", "stderr", "-s", "reload")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestNginx(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	_, backend := grpcServer(t)
	n := startNginx(t, backend, certFile, keyFile)
	tests := []struct {
		name, url, method string
		class             timeline.Class
		says              string
	}{
		{"HTTP/2", "h2c://" + n.plain + "/", "", timeline.OK, ""},
		{"HTTP/2 over TLS", "h2://" + n.secure + "/", "", timeline.OK, ""},
		{"a gRPC server behind it", "grpc://" + n.plain, "", timeline.OK, ""},
		{"over TLS", "grpcs://" + n.secure + "/shop.Cart", "", timeline.OK, ""},
		{"one that is not there", "grpc://" + n.plain, "shop.Cart/Get", timeline.HTTP5xx, "http_5xx: status 502 Bad Gateway, in HTTP and not in gRPC"},
		{"a path without gRPC", "grpc://" + n.plain, "shop.Tea/Get", timeline.Body, "body: malformed reply: no gRPC: its content-type is"},
		{"HTTP/1.1 alone", "h2c://" + n.one, "", timeline.Body, "body: malformed reply: the server answers in HTTP/1.1"},
		{"HTTP/1.1 alone, over TLS", "h2://" + n.oneSecure, "", timeline.TLS, "tls: "},
		{"TLS", "grpc://" + n.oneSecure, "", timeline.Body, "body: malformed reply: the server answers in HTTP/1.1"},
		{"HTTP/1.1 to its HTTP/2", "http://" + n.plain, "", timeline.Body, "body: malformed reply: it begins with SETTINGS: the server speaks HTTP/2 alone"},
	}
	for _, test := range tests {
		for _, kind := range kinds {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(kind, test.url)
				p.RootCAs, p.Host, p.GRPCMethod = roots, "example.com", test.method
				allAre(t, p, test.class, test.says)
			})
		}
	}
}

// A reload ends every connection by GOAWAY: no request fails for it, but those that cross with the end of an idle
// connection.
func TestNginxReload(t *testing.T) {
	t.Parallel()
	certFile, keyFile, _ := certificate(t)
	_, backend := grpcServer(t)
	n := startNginx(t, backend, certFile, keyFile)
	o := measure(t, probe(timeline.Reused, "grpc://"+n.plain), func(o *outcomes) {
		for i := range 5 {
			until(t, "40 good answers more", func() bool { return o.count(timeline.OK) >= 40*(i+1) })
			n.reload(t)
		}
		until(t, "good answers after it", func() bool { return o.count(timeline.OK) >= 260 })
	})
	t.Log(o)
	if failed := o.observed() - o.count(timeline.OK); failed > 5 || failed != o.count(timeline.EOF)+o.count(timeline.Reset) {
		t.Error(o)
	}
	if strings.Contains(o.String(), "malformed") {
		t.Error(o)
	}
}
