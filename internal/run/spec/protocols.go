package spec

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/hint/input"
	"lapse/internal/run/exit"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// protocolOf returns the protocol of s.
func protocolOf(o *Options, s Target) loadgen.Protocol {
	p, _ := loadgen.ProtocolOf(o.SchemeOf(s)) // checked before
	return p
}

// SchemeOf returns the scheme of the URL of s.
func (o *Options) SchemeOf(s Target) string {
	if s.Service == "" {
		return s.URL.Scheme
	}
	return cmp.Or(s.scheme, o.Scheme)
}

// Asked returns what is measured of the Service s, from within and from outside of the cluster.
func (o *Options) Asked(s Target) watcher.Asked {
	return watcher.Asked{Port: s.Port, Transport: transportOf(o, s), Routes: s.askedRoutes(), Outside: o.Outside}
}

// transportOf returns the transport of the requests to s. A Service that is only watched has that of the first target.
func transportOf(o *Options, s Target) corev1.Protocol {
	if !slices.Contains(o.Parsed, s) && len(o.Parsed) > 0 {
		s = o.Parsed[0]
	}
	return corev1.Protocol(strings.ToUpper(protocolOf(o, s).Transport()))
}

// spoken reports whether a flag means something to one of the targets.
func spoken(o *Options, flag string) bool {
	return slices.ContainsFunc(o.Parsed, func(s Target) bool { return protocolOf(o, s).Takes(flag) })
}

// checkProtocols checks that each flag means something to one of the targets, and each path to its own.
func checkProtocols(o *Options) error {
	for _, p := range loadgen.Protocols {
		for _, flag := range p.Options {
			if o.Given[flag] && !spoken(o, flag) {
				return exit.Usagef("drop it, or name such a target: "+p.Example,
					"--%s is for targets of %s, and there is none", flag, loadgen.Schemes(flag))
			}
		}
	}
	if first := o.Parsed[0]; o.Hammer != "" && !protocolOf(o, first).Takes("hammer") {
		return exit.Usagef("name the http:// target first",
			"--hammer speaks HTTP, and the first target, %s, is %s", first, protocolOf(o, first).Scheme)
	}
	for _, s := range o.Parsed {
		if p := protocolOf(o, s); !p.Paths && s.Service != "" && s.Path != "/" {
			return exit.Usagef("as in svc/"+s.Service+" --scheme "+p.Scheme, "target %s: %s has no path", s, p.Scheme)
		}
	}
	if err := checkGRPC(o); err != nil {
		return err
	}
	if spoken(o, "echo") {
		if err := checkEcho(o); err != nil {
			return err
		}
	}
	if err := checkPersistent(o); err != nil {
		return err
	}
	noteShortcomings(o)
	return nil
}

const grpcHint = "as in --grpc-descriptors shop.pb, of protoc --include_imports --descriptor_set_out=shop.pb"

// checkGRPC encodes the message for a gRPC method. The Job gets it encoded.
func checkGRPC(o *Options) error {
	switch {
	case o.AgentListen != "":
		return nil
	case o.GRPCMethod == "" && (o.GRPCDescriptors != "" || o.GRPCMessage != ""):
		return exit.Usagef("as in --grpc-method shop.Cart/Get; without it the standard health check is called",
			"--grpc-descriptors and --grpc-message say how to call a --grpc-method, and there is none")
	case o.GRPCMethod == "":
		return nil
	case o.GRPCDescriptors == "":
		return exit.Usagef(grpcHint,
			"--grpc-method %s: without a descriptor set nothing is known of it", o.GRPCMethod)
	}
	set, err := input.File(o.GRPCDescriptors, input.Descriptors)
	if err != nil {
		return exit.Usagef("as in protoc --include_imports --descriptor_set_out=FILE", "grpc-descriptors: %w", err)
	}
	if o.GRPCMethod, o.GRPCRequest, err = loadgen.GRPCRequest(o.GRPCMethod, set, o.GRPCMessage); err != nil {
		return exit.Usagef("", "grpc-method: %w", err)
	}
	if len(o.GRPCRequest) == 0 {
		o.GRPCRequest = nil // as the agent reads it
	}
	return nil
}

// checkEcho reads the texts to send and to await.
func checkEcho(o *Options) error {
	const hint = `escapes are those of Go: \r \n \t \\ \x00; as in --echo 'PING\r\n'`
	var err error
	if o.Sent, err = unescape(o.Echo); err != nil {
		return exit.Usagef(hint, "echo: %w", err)
	}
	if o.EchoFrom != "" && o.Echo == "" {
		o.Sent = "the text of a Secret" // a stand-in: only the agent knows the text
	}
	if o.Awaited, err = unescape(o.ExpectBody); err != nil {
		return exit.Usagef(hint, "expect-body %q: %w", o.ExpectBody, err)
	}
	return nil
}

// noteShortcomings adds notes about what the probes of the targets do not show.
func noteShortcomings(o *Options) {
	for _, s := range o.Parsed {
		p := protocolOf(o, s)
		if p.Beware == nil {
			continue
		}
		for _, kind := range kindsOf(o, s) {
			note := p.Beware(loadgen.Probe{Target: timeline.Target{Kind: timeline.TargetKind(kind)}, Echo: o.Sent})
			if note != "" && !slices.Contains(o.Notes, note) {
				o.Notes = append(o.Notes, note)
			}
		}
	}
}

// checkPersistent decides on which kinds of connection the targets' protocols can be measured.
func checkPersistent(o *Options) error {
	newOnly := slices.DeleteFunc(slices.Clone(o.Parsed), func(s Target) bool { return persistent(o, s) })
	if len(newOnly) == 0 {
		return nil
	}
	p := protocolOf(o, newOnly[0])
	if o.WasGiven("target") && slices.Contains(o.Kinds, string(timeline.Reused)) || o.holds() {
		advice := "--target new"
		if p.Takes("echo") {
			advice = "give it a text to echo, as in --echo ping, or --target new"
		}
		return exit.Usagef(advice, "%s is measured on new connections only: %s", newOnly[0], p.NewOnly)
	}
	note := p.Scheme + " targets are measured on new connections only: " + p.NewOnly
	if p.Proves != nil {
		if proof := p.Proves(probe(o, timeline.Target{})); proof.Blind {
			note += ";\na success is that " + proof.Text
		}
	}
	o.Notes = append(o.Notes, note)
	if len(newOnly) == len(o.Parsed) {
		o.Kinds = []string{string(timeline.New)}
	}
	return nil
}

// persistent reports whether anything can be seen of s on persistent connections.
func persistent(o *Options, s Target) bool {
	p := protocolOf(o, s)
	return p.Persistent == nil || p.Persistent(loadgen.Probe{Echo: o.Sent})
}

// ratedKindsOf returns the kinds of connection on which s gets requests at --rate.
func ratedKindsOf(o *Options, s Target) []string {
	held := func(kind string) bool { return kind == string(timeline.Held) }
	return slices.DeleteFunc(slices.Clone(kindsOf(o, s)), held)
}

// kindsOf returns the kinds of connection on which s is measured.
func kindsOf(o *Options, s Target) []string {
	if !persistent(o, s) {
		return []string{string(timeline.New)}
	}
	return o.Kinds
}

// PrintNotes prints the limits of the run, and that its baseline is long.
func (o *Options) PrintNotes(stderr io.Writer) {
	if note := baselineNote(o); note != "" {
		fmt.Fprintf(stderr, "note: %s\n", note)
	}
	for _, note := range o.Notes {
		fmt.Fprintf(stderr, "note: %s\n", note)
	}
}

// unescape replaces Go's escapes in text by what they stand for. Quotes need no escape.
func unescape(text string) (string, error) {
	var b []byte
	for whole := text; text != ""; {
		r, wide, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			// The text may be a password: the error does not show it.
			return "", fmt.Errorf("no escape at byte %d", len(whole)-len(text))
		}
		if wide {
			b = utf8.AppendRune(b, r)
		} else {
			b = append(b, byte(r))
		}
		text = rest
	}
	return string(b), nil
}

// probe returns a probe of a target, with the options that all probes share.
func probe(o *Options, t timeline.Target) loadgen.Probe {
	return loadgen.Probe{
		Target:        t,
		Method:        o.Method,
		Host:          o.Host,
		Header:        o.Header,
		Echo:          o.Sent,
		Reply:         o.Awaited,
		RootCAs:       o.roots,
		Connections:   o.Connections,
		ExpectStatus:  o.Statuses,
		ExpectBody:    o.ExpectBody,
		BackendHeader: o.BackendHeader,
		GRPCMethod:    o.GRPCMethod,
		GRPCMessage:   o.GRPCRequest,
	}
}
