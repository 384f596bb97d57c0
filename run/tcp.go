package run

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
func (o *Options) isTCP(s subject) bool {
	if s.Service != "" {
		return o.Scheme == "tcp"
	}
	return s.URL.Scheme == "tcp"
}

// checkTCP checks what bare TCP allows: it has no paths, no headers, and nothing is seen on a persistent connection unless
// an echo is asked for.
func (o *Options) checkTCP() error {
	rest := slices.DeleteFunc(slices.Clone(o.Targets), o.isTCP)
	switch {
	case len(rest) == len(o.Targets) && o.Echo+o.EchoFrom != "":
		return Refuse("as in tcp://HOST:PORT, or svc/NAME with --scheme tcp", "--echo and --echo-from are for tcp targets, and there is none")
	case len(rest) == len(o.Targets):
		return nil
	case len(rest) == 0:
		if flag := o.flagOfHTTP(); flag != "" {
			return Refuse("drop it, or name an http:// target", "--%s is for HTTP, and all targets are tcp", flag)
		}
	case o.Hammer != "" && o.isTCP(o.Targets[0]):
		return Refuse("name the http:// target first", "--hammer speaks HTTP, and the first target, %s, is tcp", o.Targets[0])
	}
	for _, s := range o.Targets {
		if o.isTCP(s) && s.Service != "" && s.Path != "/" {
			return Refuse("as in svc/"+s.Service+" --scheme tcp", "target %s: tcp has no path", s)
		}
	}
	return o.checkEcho()
}

// flagOfHTTP names a flag that was given and only means something to HTTP.
func (o *Options) flagOfHTTP() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"header", len(o.Headers) > 0}, {"header-from", len(o.HeadersFrom) > 0}, {"method", o.Method != http.MethodGet}, {"host", o.Host != ""},
		{"expect-status", o.ExpectStatus != ""}, {"backend-header", o.BackendHeader != loadgen.DefaultBackendHeader},
		{"ca-file", o.CAPEM != ""}, {"hammer", o.Hammer != ""},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

// checkEcho reads the texts to send and to await, and decides which kinds of connection they allow to measure.
func (o *Options) checkEcho() error {
	const hint = `escapes are those of Go: \r \n \t \\ \x00; as in --echo 'PING\r\n'`
	var err error
	if o.Sent, err = Unescape(o.Echo); err != nil {
		return Refuse(hint, "echo: %w", err)
	}
	if o.EchoFrom != "" {
		o.Sent = "the text of a Secret" // stands for it here: only the agent knows it
	}
	if o.Awaited, err = Unescape(o.ExpectBody); err != nil {
		return Refuse(hint, "expect-body %q: %w", o.ExpectBody, err)
	}
	if o.Sent != "" {
		return nil
	}
	if o.Changed("target") && slices.Contains(o.Kinds, string(timeline.Reused)) {
		return Refuse(`give it a text to echo, as in --echo ping, or --target new`, "without --echo nothing can be seen on the reused connections of a tcp target")
	}
	note := "tcp targets are measured on new connections only: nothing can be seen on reused ones without --echo"
	if o.Awaited == "" {
		note += ";\na connection that is accepted counts as good, whether or not the application answers on it"
	}
	o.Notes = append(o.Notes, note)
	if !slices.ContainsFunc(o.Targets, func(s subject) bool { return !o.isTCP(s) }) {
		o.Kinds = []string{string(timeline.New)}
	}
	return nil
}

// kindsOf are the kinds of connection on which s is measured.
func (o *Options) kindsOf(s subject) []string {
	if o.isTCP(s) && o.Sent == "" {
		return []string{string(timeline.New)}
	}
	return o.Kinds
}

// TellNote says what the user may not expect of a run.
func (o *Options) TellNote(stderr io.Writer) {
	for _, note := range o.Notes {
		fmt.Fprintf(stderr, "note: %s\n", note)
	}
}

// Unescape replaces Go's escapes in text by what they stand for. Quotes need none.
func Unescape(text string) (string, error) {
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
