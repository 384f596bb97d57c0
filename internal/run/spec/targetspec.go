package spec

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/loadgen"
	"lapse/watcher"
)

// A Target is what the user asked to measure: a Service of the cluster, or a bare URL.
type Target struct {
	Service string   // name of a Service; empty for a bare URL
	Port    string   // the Service's port, by number or name; empty if it has only one
	Routes  string   // the ways to the Service, as in clusterip,nodeport:node2; empty: its default
	Path    string   // what to request of the Service, from the slash on
	URL     *url.URL // the bare URL

	// Of a Service that was chosen.
	Namespace string // where it is; empty: where the run is
	scheme    string // what it speaks; empty: what --scheme says
	Label     string // what its targets are called
}

func (s Target) String() string {
	if s.Service == "" {
		return s.URL.Redacted()
	}
	out := "svc/" + s.Service
	if s.Port != "" {
		out += ":" + s.Port
	}
	if s.Routes != "" {
		out += routeMark + s.Routes
	}
	return out + s.Path
}

// routeMark stands before the routes of a Service. They come before the path, because a path has its own query.
const routeMark = "?route="

// RouteNames returns the routes that ?route= takes.
func RouteNames() []string { return watcher.RouteNames() }

// askedRoutes returns the routes that were named.
func (s Target) askedRoutes() []watcher.AskedRoute {
	if s.Routes == "" {
		return nil
	}
	routes, _ := watcher.ParseRoutes(s.Routes) // checked when s was parsed
	return routes
}

// NeedsNodes reports whether nodes must be listed to find the ways to the Service.
func (s Target) NeedsNodes() bool { return watcher.NeedsNodes(s.askedRoutes()) }

// NotCoveredLines returns what a pass of the run will not cover.
func NotCoveredLines(info watcher.Info) (lines []string) {
	for _, sentence := range info.Service.NotCovered {
		lines = append(lines, "not covered of svc/"+info.Service.Name+": "+sentence)
	}
	return lines
}

// TargetHint says how a target is written.
var TargetHint = func() string {
	var schemes []string
	for _, p := range loadgen.Protocols {
		schemes = append(schemes, p.Scheme)
	}
	return "a target is svc/NAME[:PORT][" + routeMark + "ROUTE,…][/PATH], or a URL " +
		"such as http://HOST[:PORT][/PATH]; the schemes are " + strings.Join(schemes, ", ")
}()

// ParseTarget reads a TARGET argument.
func ParseTarget(arg string) (Target, error) {
	if rest, ok := cutService(arg); ok {
		return parseService(arg, rest)
	}
	if meant := meantBy(arg); meant != "" {
		return Target{}, exit.Usagef("did you mean "+meant+"?", "target %q is neither a Service nor a URL", arg)
	}
	u, err := url.Parse(arg)
	if err != nil {
		return Target{}, exit.Usagef(TargetHint, "target %q: %w", arg, err)
	}
	p, known := loadgen.ProtocolOf(u.Scheme)
	switch {
	case !known:
		return Target{}, exit.Usagef(TargetHint,
			"target %q is neither a Service nor an %s URL", arg, loadgen.Schemes(""))
	case u.Hostname() == "":
		return Target{}, exit.Usagef(TargetHint, "target %q names no host", arg)
	case u.Port() != "" && !validPort(u.Port()):
		return Target{}, exit.Usagef(TargetHint, "target %q: port %s is not between 1 and 65535", arg, u.Port())
	}
	if u.Host, err = asciiHost(u.Host); err != nil {
		return Target{}, exit.Usagef(TargetHint, "target %q: %w", arg, err)
	}
	hasPath := strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != ""
	if p.Port == "" && u.Port() == "" || !p.Paths && hasPath {
		return Target{}, exit.Usagef(TargetHint, "target %q: a target of %s is %s", arg, p.Scheme, p.Example)
	}
	return Target{URL: u}, nil
}

func cutService(arg string) (string, bool) {
	for _, prefix := range []string{"svc/", "service/", "services/"} {
		if rest, ok := strings.CutPrefix(arg, prefix); ok {
			return rest, true
		}
	}
	return "", false
}

func parseService(arg, rest string) (Target, error) {
	name, path := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		name, path = rest[:i], rest[i:]
	}
	name, routes, hasRoutes := strings.Cut(name, "?")
	name, port, hasPort := strings.Cut(name, ":")
	switch {
	case name == "":
		return Target{}, exit.Usagef(TargetHint, "target %q names no Service", arg)
	case hasPort && port == "":
		return Target{}, exit.Usagef(TargetHint, "target %q: no port after the colon", arg)
	}
	if _, err := strconv.Atoi(port); err == nil && !validPort(port) {
		return Target{}, exit.Usagef(TargetHint, "target %q: port %s is not between 1 and 65535", arg, port)
	}
	if _, err := url.ParseRequestURI(path); err != nil {
		return Target{}, exit.Usagef(TargetHint, "target %q: %w", arg, err)
	}
	spec := Target{Service: name, Port: port, Path: path}
	if hasRoutes {
		return spec.by(arg, routes)
	}
	if _, query, _ := strings.Cut(path, routeMark); query != "" {
		if _, err := watcher.ParseRoutes(query); err == nil {
			right := Target{Service: name, Port: port, Routes: query, Path: strings.TrimSuffix(path, routeMark+query)}
			return Target{}, exit.Usagef("as in "+right.String(), "target %q: routes come before the path", arg)
		}
	}
	return spec, nil
}

// by returns s with the routes in the query of its name.
func (s Target) by(arg, query string) (Target, error) {
	routes, ok := strings.CutPrefix("?"+query, routeMark)
	if !ok {
		return Target{}, exit.Usagef("as in svc/"+s.Service+routeMark+"nodeport",
			"target %q: a Service takes %s and nothing else", arg, strings.TrimPrefix(routeMark, "?"))
	}
	asked, err := watcher.ParseRoutes(routes)
	if err != nil {
		return Target{}, exit.Usagef(hint.Of(err), "target %q: %w", arg, err)
	}
	names := make([]string, len(asked))
	for i, a := range asked {
		names[i] = a.String()
	}
	s.Routes = strings.Join(names, ",")
	return s, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// asciiHost writes a host's name as DNS and HTTP do, bücher.example as xn--bcher-kva.example. A port stays as it is.
// https://www.rfc-editor.org/rfc/rfc5891
func asciiHost(host string) (string, error) {
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
