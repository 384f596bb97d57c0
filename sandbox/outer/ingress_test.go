package outer

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

const (
	someServices = `{"items": [
		{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}, {"name": "grpc", "port": 90}]}},
		{"metadata": {"namespace": "shop", "name": "api"}, "spec": {"ports": [{"port": 80}]}}]}`
	someSlices = `{"items": [
		{"metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}}, "ports": [{"name": "http", "port": 8080}, {"name": "grpc", "port": 9090, "appProtocol": "kubernetes.io/h2c"}],
		 "endpoints": [
			{"addresses": ["10.244.1.5"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-b"}},
			{"addresses": ["10.244.1.4"], "conditions": {}, "targetRef": {"kind": "Pod", "name": "web-a"}},
			{"addresses": ["10.244.1.6"], "conditions": {"ready": false, "serving": true, "terminating": true}, "targetRef": {"kind": "Pod", "name": "web-c"}}]},
		{"metadata": {"namespace": "shop", "name": "web-2", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv6", "ports": [{"name": "http", "port": 8080}],
		 "endpoints": [{"addresses": ["fd00::5"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-b"}}]},
		{"metadata": {"namespace": "other", "name": "web-3", "labels": {"kubernetes.io/service-name": "web"}}, "ports": [{"name": "http", "port": 8080}],
		 "endpoints": [{"addresses": ["10.244.9.9"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-x"}}]}]}`
	someIngresses = `{"items": [
		{"metadata": {"namespace": "shop", "name": "all"}, "spec": {"rules": [
			{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}},
			{"host": "shop.example", "http": {"paths": [
				{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"name": "http"}}}},
				{"path": "/api", "pathType": "Prefix", "backend": {"service": {"name": "api", "port": {"number": 80}}}},
				{"path": "/grpc", "pathType": "Exact", "backend": {"service": {"name": "web", "port": {"number": 90}}}}]}}]}},
		{"metadata": {"namespace": "shop", "name": "foreign"}, "spec": {"ingressClassName": "nginx", "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
		{"metadata": {"namespace": "shop", "name": "wild"}, "spec": {"ingressClassName": "lapse", "rules": [
			{"host": "*.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "gone", "port": {"number": 80}}}}]}}]}}]}`
)

func someRules(t *testing.T) []Rule {
	t.Helper()
	return rulesOf(read[ingressList](t, someIngresses), read[serviceList](t, someServices),
		read[sliceList](t, someSlices))
}

func TestRulesAreTheMoreSpecificFirst(t *testing.T) {
	var got []string
	for _, r := range someRules(t) {
		got = append(got, r.Host+r.Path+" "+r.To.Name)
	}
	want := "shop.example/grpc shop_web_90, shop.example/api shop_api_80, shop.example/ shop_web_http0, *.example/ " +
		"shop_gone_80, / shop_web_80"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestServersAreTheReadyPodsOfTheServicesPort(t *testing.T) {
	for _, r := range someRules(t) {
		var servers []string
		for _, s := range r.To.Servers {
			servers = append(servers, s.Name+" "+s.Addr.String())
		}
		want := map[string]string{
			"shop_web_80":    "web-a 10.244.1.4:8080, web-b 10.244.1.5:8080",
			"shop_web_http0": "web-a 10.244.1.4:8080, web-b 10.244.1.5:8080",
			"shop_web_90":    "web-a 10.244.1.4:9090, web-b 10.244.1.5:9090",
		}[r.To.Name]
		if strings.Join(servers, ", ") != want || r.To.H2 != (r.To.Name == "shop_web_90") {
			t.Errorf("%s has %v, HTTP/2 %v; want %s", r.To.Name, servers, r.To.H2, want)
		}
	}
}

func TestConfigurationHasEachRuleAndEachBackendOnce(t *testing.T) {
	c := ProxyConfig{Interval: time.Second, Retries: 2, Connect: 200 * time.Millisecond,
		Listen: []netip.Addr{netip.MustParseAddr("10.200.0.2"), netip.MustParseAddr("fd00::2")}, Dir: "/state"}
	got := configuration(someRules(t), c)
	for _, want := range []string{
		"\ttimeout connect 200ms\n", "\tretries 2\n\toption redispatch 1\n",
		"\tbind 10.200.0.2:80\n\tbind [fd00::2]:80\n", "stats socket /state/haproxy.sock",
		"\tacl host0 hdr(host),field(1,:) -i shop.example\n\tacl path0 path /grpc\n" +
			"\tuse_backend shop_web_90 if host0 path0\n",
		"\tacl path1 path /api\n\tacl path1 path_beg /api/\n\tuse_backend shop_api_80 if host1 path1\n",
		"\tacl host3 hdr(host),field(1,:) -m end -i .example\n",
		"\tacl path4 path_beg /\n\tuse_backend shop_web_80 if path4\n\tdefault_backend no_ingress\n",
		"backend shop_web_80\n\tbalance roundrobin\n\tserver web-a 10.244.1.4:8080\n\tserver web-b 10.244.1.5:8080\n",
		"\tserver web-a 10.244.1.4:9090 proto h2\n",
		"backend shop_api_80\n\tbalance roundrobin\n\nbackend",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if strings.Count(got, "backend shop_web_80\n") != 1 || t.Failed() {
		t.Errorf("in\n%s", got)
	}
	c.Retries = 0
	if strings.Contains(configuration(nil, c), "redispatch") {
		t.Error("without retries no request goes to another Pod")
	}
}

func TestWrongIngressFlagsAreNamed(t *testing.T) {
	for flag, c := range map[string]ProxyConfig{
		"--reload-interval": {}, "--retries": {Interval: time.Second, Connect: time.Second, Retries: -1},
		"--connect-timeout": {Interval: time.Second},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := DefaultProxy.Validate(); err != nil {
		t.Error(err)
	}
}
