package spec

import (
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// meantBy returns the target that was probably meant by a word that is none: "web" is a Service, "127.0.0.1:8090" and
// "example.com/path" are URLs. Empty if nothing is likely.
func meantBy(arg string) string {
	host, path, hasPath := strings.Cut(arg, "/")
	if strings.Contains(path, "//") || strings.HasSuffix(host, ":") { // it has a scheme
		return ""
	}
	name, port, hasPort := strings.Cut(host, ":")
	_, _, err := net.SplitHostPort(host)
	switch {
	case hasPort && err == nil && (strings.Contains(name, ".") || name == "localhost" || strings.HasPrefix(host, "[")):
		return "http://" + host + "/" + path
	case hasPort && !validPort(port) || hasPath && !strings.Contains(name, "."):
		return ""
	case len(validation.IsDNS1035Label(name)) == 0:
		return "svc/" + arg
	case strings.Contains(name, ".") && len(validation.IsDNS1123Subdomain(name)) == 0:
		return "http://" + host + "/" + path
	}
	return ""
}
