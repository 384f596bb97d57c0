package protocol

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"lapse/internal/hint"
)

// ProofOf returns what a success of p proves.
func ProofOf(p Probe) Proof {
	u, err := url.Parse(p.URL)
	if err != nil {
		return Proof{}
	}
	protocol, _ := ProtocolOf(u.Scheme)
	if protocol.Proves == nil {
		return Proof{}
	}
	return protocol.Proves(p)
}

// Protocols lists every protocol. A probe's fields that its protocol does not take are ignored.
var Protocols = []Protocol{
	httpPlain, httpSecure,
	httpTwoPlain, httpTwoSecure,
	grpcPlain, grpcSecure,
	eventsPlain, eventsSecure,
	tcpBare, tcpSecure,
	webSocketPlain, webSocketSecure,
	udpBare,
	dnsQuery,
}

// ProtocolOf returns the protocol of a scheme.
func ProtocolOf(scheme string) (_ Protocol, known bool) {
	i := slices.IndexFunc(Protocols, func(p Protocol) bool { return p.Scheme == scheme })
	if i < 0 {
		return Protocol{}, false
	}
	return Protocols[i], true
}

// Takes reports whether a flag of `lapse run` means something to p.
func (p Protocol) Takes(option string) bool {
	return slices.Contains(p.Options, option) || !slices.ContainsFunc(Protocols, func(other Protocol) bool {
		return slices.Contains(other.Options, option)
	})
}

// Schemes lists the schemes of those protocols that take an option, or of all if it is empty: "http, https or tcp".
func Schemes(option string) string {
	var names []string
	for _, p := range Protocols {
		if option == "" || p.Takes(option) {
			names = append(names, p.Scheme)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// ParseURL reads a target's URL, of whatever protocol.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, hint.Errorf("targets look like http://host:port/path or tcp://host:port", "%w", err)
	}
	p, known := ProtocolOf(u.Scheme)
	switch {
	case !known:
		return nil, fmt.Errorf("URL %s: scheme %q is not one of %s", u.Redacted(), u.Scheme, Schemes(""))
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %s names no host", u.Redacted())
	case u.User != nil:
		return nil, hint.Errorf("send them with --header 'Authorization: …'", "URL %s carries credentials",
			u.Redacted())
	case p.Port == "" && u.Port() == "":
		return nil, fmt.Errorf("URL %s names no port", u.Redacted())
	case !p.Paths && (u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != ""):
		return nil, fmt.Errorf("URL %s has more than a host and a port", u.Redacted())
	}
	return u, nil
}
