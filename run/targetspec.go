package run

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"lapse/loadgen"
)

// A targetSpec is what the user asked to measure: a Service of the cluster, or a bare URL.
type targetSpec struct {
	Service string   // name of a Service; empty for a bare URL
	port    string   // the Service's port, by number or name; empty if it has only one
	Path    string   // what to request of the Service, from the slash on
	URL     *url.URL // the bare URL

	// Of a Service that was chosen.
	namespace string // where it is; empty: where the run is
	scheme    string // what it speaks; empty: what --scheme says
	label     string // what its targets are called
}

func (s targetSpec) String() string {
	if s.Service == "" {
		return s.URL.Redacted()
	}
	out := "svc/" + s.Service
	if s.port != "" {
		out += ":" + s.port
	}
	return out + s.Path
}

// TargetHint says what a target looks like.
var TargetHint = func() string {
	forms := []string{"svc/NAME[:PORT][/PATH]"}
	for _, p := range loadgen.Protocols {
		forms = append(forms, p.Example)
	}
	return "a target is " + strings.Join(forms, ", ")
}()

// ParseTarget reads a TARGET argument.
func ParseTarget(arg string) (targetSpec, error) {
	if rest, ok := cutService(arg); ok {
		return parseService(arg, rest)
	}
	u, err := url.Parse(arg)
	if err != nil {
		return targetSpec{}, Usagef(TargetHint, "target %q: %w", arg, err)
	}
	p, known := loadgen.ProtocolOf(u.Scheme)
	switch {
	case !known:
		return targetSpec{}, Usagef(TargetHint, "target %q is neither a Service nor an %s URL", arg, loadgen.Schemes(""))
	case u.Hostname() == "":
		return targetSpec{}, Usagef(TargetHint, "target %q names no host", arg)
	case u.Port() != "" && !validPort(u.Port()):
		return targetSpec{}, Usagef(TargetHint, "target %q: port %s is not between 1 and 65535", arg, u.Port())
	}
	if u.Host, err = AsciiHost(u.Host); err != nil {
		return targetSpec{}, Usagef(TargetHint, "target %q: %w", arg, err)
	}
	if p.Port == "" && u.Port() == "" || !p.Paths && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		return targetSpec{}, Usagef(TargetHint, "target %q: a target of %s is %s", arg, p.Scheme, p.Example)
	}
	return targetSpec{URL: u}, nil
}

func cutService(arg string) (string, bool) {
	for _, prefix := range []string{"svc/", "service/", "services/"} {
		if rest, ok := strings.CutPrefix(arg, prefix); ok {
			return rest, true
		}
	}
	return "", false
}

func parseService(arg, rest string) (targetSpec, error) {
	name, path := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		name, path = rest[:i], rest[i:]
	}
	name, port, hasPort := strings.Cut(name, ":")
	switch {
	case name == "":
		return targetSpec{}, Usagef(TargetHint, "target %q names no Service", arg)
	case hasPort && port == "":
		return targetSpec{}, Usagef(TargetHint, "target %q: no port after the colon", arg)
	}
	if _, err := strconv.Atoi(port); err == nil && !validPort(port) {
		return targetSpec{}, Usagef(TargetHint, "target %q: port %s is not between 1 and 65535", arg, port)
	}
	if _, err := url.ParseRequestURI(path); err != nil {
		return targetSpec{}, Usagef(TargetHint, "target %q: %w", arg, err)
	}
	return targetSpec{Service: name, port: port, Path: path}, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// AsciiHost writes a host's name as DNS and HTTP do, bücher.example as xn--bcher-kva.example. A port stays as it is.
// https://www.rfc-editor.org/rfc/rfc5891
func AsciiHost(host string) (string, error) {
	if !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return host, nil
	}
	name, port, found := strings.Cut(host, ":")
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "", fmt.Errorf("host %q cannot be written in ASCII: %w", name, err)
	}
	if found {
		ascii += ":" + port
	}
	return ascii, nil
}
