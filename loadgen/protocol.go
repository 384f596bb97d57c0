package loadgen

import (
	"bufio"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"lapse/timeline"
)

// A protocol is what is said on a target's connections. The URL's scheme chooses it.
type protocol struct {
	port   string // default port; "" where the URL must name one
	secure bool   // spoken over TLS
	plan   func(Probe, *url.URL) (codec, error)
}

// protocols are those there are, by scheme. Each has its file.
var protocols = map[string]protocol{
	"http":  {port: "80", plan: newHTTP},
	"https": {port: "443", plan: newHTTP, secure: true},
	"tcp":   {plan: newTCP},
}

// A codec is a protocol prepared for one target. It is shared by the target's connections and keeps no state.
type codec interface {
	// request is what is written for each request, byte for byte. It is empty where nothing is.
	request() []byte
	// awaits reports whether a reply is awaited. If not, a request that was written is a success.
	awaits() bool
	// read reads the next reply, of which at least one byte has arrived or is an error away. Errors are errMalformed,
	// errUnexpected, errTruncated, io.EOF where the reply has not begun in earnest, or the connection's own. It must not allocate in the
	// steady state: r keeps its buffers from one reply to the next.
	read(br *bufio.Reader, r *reply) error
	// judge says how a reply that was read whole counts, and if that is no success, what it has wrong with it.
	judge(r *reply) (timeline.Class, error)
}

// A reply is what was read of one.
type reply struct {
	status         int    // 0 where the protocol has none
	inBody         bool   // what precedes the body was whole
	last           bool   // the connection carries no further reply
	backend        []byte // who served it, in its own words
	bodyAsExpected bool

	lengthText []byte // of HTTP: as first read, to compare others with
}

// schemes lists the schemes for people.
func schemes() string {
	return strings.Join(slices.Sorted(maps.Keys(protocols)), ", ")
}

// ParseURL reads a target's URL, of whatever protocol.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: targets look like http://host:port/path or tcp://host:port", err)
	}
	_, known := protocols[u.Scheme]
	switch {
	case !known:
		return nil, fmt.Errorf("URL %s: scheme %q is not one of %s", u.Redacted(), u.Scheme, schemes())
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %s names no host", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("URL %s carries credentials\nhint: send them with --header 'Authorization: …'", u.Redacted())
	}
	return u, nil
}
