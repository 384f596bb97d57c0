package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"lapse/loadgen"
	"lapse/timeline"
)

// isTCP reports whether s is spoken to over bare TCP.
func (o *options) isTCP(s subject) bool {
	if s.service != "" {
		return o.scheme == "tcp"
	}
	return s.url.Scheme == "tcp"
}

// checkTCP checks what bare TCP allows: it has no paths, no headers, and nothing is seen on a persistent connection unless
// an echo is asked for.
func (o *options) checkTCP() error {
	rest := slices.DeleteFunc(slices.Clone(o.subjects), o.isTCP)
	switch {
	case len(rest) == len(o.subjects) && o.echo+o.echoFrom != "":
		return refuse("as in tcp://HOST:PORT, or svc/NAME with --scheme tcp", "--echo and --echo-from are for tcp targets, and there is none")
	case len(rest) == len(o.subjects):
		return nil
	case len(rest) == 0:
		if flag := o.flagOfHTTP(); flag != "" {
			return refuse("drop it, or name an http:// target", "--%s is for HTTP, and all targets are tcp", flag)
		}
	case o.hammer != "" && o.isTCP(o.subjects[0]):
		return refuse("name the http:// target first", "--hammer speaks HTTP, and the first target, %s, is tcp", o.subjects[0])
	}
	for _, s := range o.subjects {
		if o.isTCP(s) && s.service != "" && s.path != "/" {
			return refuse("as in svc/"+s.service+" --scheme tcp", "target %s: tcp has no path", s)
		}
	}
	return o.checkEcho()
}

// flagOfHTTP names a flag that was given and only means something to HTTP.
func (o *options) flagOfHTTP() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"header", len(o.headers) > 0}, {"header-from", len(o.headersFrom) > 0}, {"method", o.method != http.MethodGet}, {"host", o.host != ""},
		{"expect-status", o.expectStatus != ""}, {"backend-header", o.backendHeader != loadgen.DefaultBackendHeader},
		{"ca-file", o.pem != ""}, {"hammer", o.hammer != ""},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

// checkEcho reads the texts to send and to await, and decides which kinds of connection they allow to measure.
func (o *options) checkEcho() error {
	const hint = `escapes are those of Go: \r \n \t \\ \x00; as in --echo 'PING\r\n'`
	var err error
	if o.sent, err = unescape(o.echo); err != nil {
		return refuse(hint, "echo: %w", err)
	}
	if o.echoFrom != "" {
		o.sent = "the text of a Secret" // stands for it here: only the agent knows it
	}
	if o.awaited, err = unescape(o.expectBody); err != nil {
		return refuse(hint, "expect-body %q: %w", o.expectBody, err)
	}
	if o.sent != "" {
		return nil
	}
	if o.changed("target") && slices.Contains(o.kinds, string(timeline.Reused)) {
		return refuse(`give it a text to echo, as in --echo ping, or --target new`, "without --echo nothing can be seen on the reused connections of a tcp target")
	}
	note := "tcp targets are measured on new connections only: nothing can be seen on reused ones without --echo"
	if o.awaited == "" {
		note += ";\na connection that is accepted counts as good, whether or not the application answers on it"
	}
	o.notes = append(o.notes, note)
	if !slices.ContainsFunc(o.subjects, func(s subject) bool { return !o.isTCP(s) }) {
		o.kinds = []string{string(timeline.New)}
	}
	return nil
}

// kindsOf are the kinds of connection on which s is measured.
func (o *options) kindsOf(s subject) []string {
	if o.isTCP(s) && o.sent == "" {
		return []string{string(timeline.New)}
	}
	return o.kinds
}

// tellNote says what the user may not expect of a run.
func (o *options) tellNote(stderr io.Writer) {
	for _, note := range o.notes {
		fmt.Fprintf(stderr, "note: %s\n", note)
	}
}

// unescape replaces Go's escapes in text by what they stand for. Quotes need none.
func unescape(text string) (string, error) {
	var b []byte
	for whole := text; text != ""; {
		r, wide, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			return "", fmt.Errorf("no escape at byte %d", len(whole)-len(text)) // and not the text: it may be a password
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
