package hey

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"lapse/timeline"
)

// Bounds of the hammer, and why.
const (
	mostWorkers   = 5000      // hey keeps room for 1000 results of each
	mostRequests  = 1_000_000 // of -n: hey's series stop there
	slowestWorker = 1.0       // of -q: a worker waiting for its tick does not hear that it shall stop
	fastestWorker = 1e6       // of -q: hey counts the time between two requests in whole microseconds

	longestTimeout = int(math.MaxInt32) // of -t: of far more seconds hey's nanoseconds overflow
)

// HammerFlags is how the hammer is set, in hey's own flags. The zero value is not useful:
// see [ParseHammer].
type HammerFlags struct {
	Workers   int           // -c
	PerWorker float64       // -q: requests per second and worker; 0 for as many as they can
	Requests  int           // -n; 0 for as many as the time allows
	Duration  time.Duration // -z; 0 for as long as the run
	Timeout   int           // -t: seconds; 0 for none

	Method             string // -m
	Header             http.Header
	Body               []byte // -d, or the contents of -D
	BodyFile           string // -D: a file of this machine
	Host               string // -host
	Username, Password string // -a
	Proxy              *url.URL
	HTTP2              bool
	DisableCompression bool
	DisableKeepAlives  bool
	DisableRedirects   bool
}

// unsupported are flags of hey's that make no sense here, and why.
var unsupported = map[string]string{
	"o":    "the summary is part of the report",
	"cpus": "the probes share these processors",
	"h":    "hey itself has replaced it by -H",
}

// ParseHammer reads hey's flags, as a shell would split them: "-c 50 -q 20 -H 'Accept: text/html'". They mean
// what they mean to hey, except that without -n and -z the load goes on as long as the run.
func ParseHammer(args string) (HammerFlags, error) {
	words, err := splitWords(args)
	if err != nil {
		return HammerFlags{}, err
	}
	raw := heyFlags()
	if err := raw.set.Parse(words); err != nil {
		return HammerFlags{}, explainFlag(err)
	}
	return raw.flags()
}

// masked stands for what must not be read.
const masked = "***"

// PublicHammer is args for everybody's eyes: without the values of headers, a password, a body or a proxy's credentials.
func PublicHammer(args string) string {
	words, err := splitWords(args)
	if err != nil {
		return masked
	}
	var public []string
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		hide := secretFlags[strings.TrimLeft(name, "-")]
		if hide == nil || !strings.HasPrefix(name, "-") {
			public = append(public, words[i])
			continue
		}
		if joined {
			public = append(public, name+"="+hide(value))
			continue
		}
		if public = append(public, name); i+1 < len(words) {
			i++
			public = append(public, hide(words[i]))
		}
	}
	return timeline.JoinCommand(public)
}

// HammerHides reports whether there is something in args that [PublicHammer] leaves out.
func HammerHides(args string) bool {
	words, err := splitWords(args)
	return err != nil || PublicHammer(args) != timeline.JoinCommand(words)
}

// secretFlags say how to hide the values of those of hey's flags that may hold secrets.
var secretFlags = map[string]func(string) string{
	"H": func(header string) string {
		name, _, found := strings.Cut(header, ":")
		if !found {
			return masked
		}
		return name + ": " + masked
	},
	"a": func(string) string { return masked },
	"d": func(string) string { return masked },
	"x": func(proxy string) string {
		if at := strings.LastIndexByte(proxy, '@'); at >= 0 {
			return masked + proxy[at:]
		}
		return proxy
	},
}

// rawFlags are hey's flags as given.
type rawFlags struct {
	set         *flag.FlagSet
	parsed      HammerFlags
	headers     headerList
	body        string
	bodyFile    string
	accept      string
	contentType string
	auth        string
	userAgent   string
	proxy       string
}

func heyFlags() *rawFlags {
	r := &rawFlags{set: flag.NewFlagSet("hammer", flag.ContinueOnError)}
	r.set.SetOutput(io.Discard)
	p := &r.parsed
	r.set.IntVar(&p.Workers, "c", 50, "")
	r.set.Float64Var(&p.PerWorker, "q", 0, "")
	r.set.IntVar(&p.Requests, "n", 0, "")
	r.set.DurationVar(&p.Duration, "z", 0, "")
	r.set.IntVar(&p.Timeout, "t", 20, "")
	r.set.StringVar(&p.Method, "m", http.MethodGet, "")
	r.set.StringVar(&p.Host, "host", "", "")
	r.set.BoolVar(&p.HTTP2, "h2", false, "")
	r.set.BoolVar(&p.DisableCompression, "disable-compression", false, "")
	r.set.BoolVar(&p.DisableKeepAlives, "disable-keepalive", false, "")
	r.set.BoolVar(&p.DisableRedirects, "disable-redirects", false, "")
	r.set.Var(&r.headers, "H", "")
	r.set.StringVar(&r.body, "d", "", "")
	r.set.StringVar(&r.bodyFile, "D", "", "")
	r.set.StringVar(&r.accept, "A", "", "")
	r.set.StringVar(&r.contentType, "T", "text/html", "")
	r.set.StringVar(&r.auth, "a", "", "")
	r.set.StringVar(&r.userAgent, "U", "", "")
	r.set.StringVar(&r.proxy, "x", "", "")
	for name, why := range unsupported {
		r.set.Func(name, "", func(string) error { return errors.New(why) })
	}
	return r
}

// explainFlag turns the flag package's words into ours.
func explainFlag(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		err = errors.New("-help shows nothing here")
	}
	return fmt.Errorf("%w\nhint: these are flags of hey: -c workers, -q requests per second of each, -n, -z, -t, -m, -H, -d, -D, -T, "+
		"-A, -U, -a, -x, -host, -h2, -disable-keepalive, -disable-compression, -disable-redirects", err)
}

// flags checks what was given, and puts it together.
func (r *rawFlags) flags() (HammerFlags, error) {
	if r.set.NArg() > 0 {
		return HammerFlags{}, fmt.Errorf("%q is not a flag\nhint: the hammer needs no URL, it hits what the run measures", r.set.Arg(0))
	}
	f := r.parsed
	f.Method = strings.ToUpper(f.Method)
	err := errors.Join(f.check(), r.setHeader(&f), r.setBody(&f), r.setAuth(&f), r.setProxy(&f))
	return f, err
}

func (f *HammerFlags) check() error {
	switch {
	case f.Workers < 1 || f.Workers > mostWorkers:
		return fmt.Errorf("-c %d is not from 1 to %d workers", f.Workers, mostWorkers)
	case f.PerWorker != 0 && !(f.PerWorker >= slowestWorker && f.PerWorker <= fastestWorker):
		return fmt.Errorf("-q %v is not from %v to %v requests per second and worker\nhint: for less load, take fewer workers (-c)", f.PerWorker, slowestWorker, fastestWorker)
	case f.Requests < 0 || f.Requests > mostRequests:
		return fmt.Errorf("-n %d is not from 1 to %d requests\nhint: without -n the load goes on as long as the run", f.Requests, mostRequests)
	case f.Requests > 0 && f.Duration == 0 && f.Requests < f.Workers:
		return fmt.Errorf("-n %d cannot be less than -c %d", f.Requests, f.Workers)
	case f.Duration < 0:
		return fmt.Errorf("-z %v is negative", f.Duration)
	case f.Timeout < 0:
		return fmt.Errorf("-t %d is negative", f.Timeout)
	case f.Timeout > longestTimeout:
		return fmt.Errorf("-t %d is more than %d seconds\nhint: -t 0 waits for ever", f.Timeout, longestTimeout)
	case !httpguts.ValidHeaderFieldName(f.Method):
		return fmt.Errorf("-m %q is not a method", f.Method)
	}
	if err := checkHost(f.Host); err != nil {
		return fmt.Errorf("-host: %w", err)
	}
	return nil
}

func checkHost(host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) {
		return fmt.Errorf("host %q is not a host name", host)
	}
	return nil
}

// heyAgent ends the User-Agent of the hammer's requests, as it does that of hey's.
const heyAgent = "hey/0.0.1"

// ownHeaders are those that net/http works out itself, and drops where they are given.
var ownHeaders = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

func (r *rawFlags) setHeader(f *HammerFlags) error {
	f.Header = http.Header{"Content-Type": {r.contentType}}
	for _, line := range r.headers {
		name, value, found := strings.Cut(line, ":")
		if !found || !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("-H %q is not a header\nhint: -H 'Name: value'", line)
		}
		if ownHeaders[http.CanonicalHeaderKey(name)] {
			return fmt.Errorf("-H %q: a request is sent without it, it follows from the body", line)
		}
		f.Header.Set(name, strings.TrimSpace(value))
	}
	if r.accept != "" {
		f.Header.Set("Accept", r.accept)
	}
	agent := cmp.Or(r.userAgent, f.Header.Get("User-Agent"))
	f.Header.Set("User-Agent", strings.TrimSpace(agent+" "+heyAgent))
	for name, values := range f.Header {
		if !httpguts.ValidHeaderFieldValue(values[0]) {
			return fmt.Errorf("header %s has a value with control characters", name)
		}
	}
	return nil
}

func (r *rawFlags) setBody(f *HammerFlags) error {
	f.Body, f.BodyFile = []byte(r.body), r.bodyFile
	if r.bodyFile == "" {
		return nil
	}
	var err error
	if f.Body, err = os.ReadFile(r.bodyFile); err != nil {
		return fmt.Errorf("-D: %w", err)
	}
	return nil
}

func (r *rawFlags) setAuth(f *HammerFlags) error {
	if r.auth == "" {
		return nil
	}
	var found bool
	if f.Username, f.Password, found = strings.Cut(r.auth, ":"); !found {
		return errors.New("-a wants username:password")
	}
	return nil
}

func (r *rawFlags) setProxy(f *HammerFlags) error {
	if r.proxy == "" {
		return nil
	}
	u, err := url.Parse(r.proxy)
	if err != nil || u.Host == "" { // hey's usage says host:port, its code wants a URL
		u, err = url.Parse("http://" + r.proxy)
	}
	if err != nil || u.Host == "" {
		return fmt.Errorf("-x %q is not the host:port of a proxy", r.proxy)
	}
	f.Proxy = u
	return nil
}

// headerList collects a flag that can be repeated.
type headerList []string

func (h *headerList) String() string { return strings.Join(*h, ", ") }

func (h *headerList) Set(line string) error {
	*h = append(*h, line)
	return nil
}

// splitWords splits as a shell does: at blanks, except within quotes or after a backslash.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, rune(0)
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", c):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%s: a quote or backslash is left open", text)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
