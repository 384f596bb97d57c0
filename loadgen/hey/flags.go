package hey

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"
	"golang.org/x/net/http/httpguts"

	"lapse/timeline"
)

// Bounds of the flags, and why.
const (
	mostWorkers    = 5000      // hey keeps room for 1000 results of each
	mostRequests   = 1_000_000 // of -n: hey's series stop there
	slowestWorker  = 1.0       // of -q: a worker that waits for its tick does not notice the end
	fastestWorker  = 1e6       // of -q: hey counts the time between two requests in whole microseconds
	longestTimeout = 86400     // of -t, in seconds
)

// Flags are the flags of hey that the hammer supports. They mean the same as in hey, except that without -n and -z the
// load lasts as long as the run. The zero value is not useful: see [ParseFlags].
type Flags struct {
	Workers    int           // -c; default 50
	PerWorker  float64       // -q: requests per second and worker; 0 for as many as they can
	Requests   int           // -n; 0 for as many as the time allows
	Duration   time.Duration // -z; 0 for as long as the run
	Timeout    int           // -t: seconds, default 20; 0 for none
	PerRequest bool          // -disable-keepalive: a connection for each request

	Method string      // -m; default GET
	Header http.Header // -H, repeatable
	Body   string      // -d
}

// ParseFlags reads flags, split as a shell would: "-c 50 -q 20 -H 'Accept: text/html'".
func ParseFlags(args string) (Flags, error) {
	words, err := shellquote.Split(args)
	if err != nil {
		return Flags{}, fmt.Errorf("%s: %w", args, err)
	}
	var f Flags
	set := flag.NewFlagSet("hammer", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&f.Workers, "c", 50, "")
	set.Float64Var(&f.PerWorker, "q", 0, "")
	set.IntVar(&f.Requests, "n", 0, "")
	set.DurationVar(&f.Duration, "z", 0, "")
	set.IntVar(&f.Timeout, "t", 20, "")
	set.BoolVar(&f.PerRequest, "disable-keepalive", false, "")
	set.StringVar(&f.Method, "m", http.MethodGet, "")
	set.StringVar(&f.Body, "d", "", "")
	f.Header = http.Header{"Content-Type": {"text/html"}}
	set.Func("H", "", f.addHeader)
	if err := set.Parse(words); err != nil {
		return Flags{}, explained(err)
	}
	if set.NArg() > 0 {
		return Flags{}, fmt.Errorf("%q is not a flag: the hammer needs no URL, it loads what the run measures",
			set.Arg(0))
	}
	f.Method = strings.ToUpper(f.Method)
	f.Header.Set("User-Agent", strings.TrimSpace(f.Header.Get("User-Agent")+" hey/0.0.1")) // as hey does
	return f, f.check()
}

// explained adds to the flag package's error which flags there are.
func explained(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		err = errors.New("-h is not a flag of the hammer")
	}
	return fmt.Errorf("%w; the hammer takes these flags of hey: -c workers, -q requests per second of each, -n, "+
		"-z, -t, -m, -H, -d, -disable-keepalive; "+
		"for -host, -a, -A, -T and -U give the header with -H, for -D the body with -d", err)
}

// ownHeaders are those that net/http works out itself, and drops where they are given.
var ownHeaders = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

func (f *Flags) addHeader(line string) error {
	name, value, found := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch {
	case !found || !httpguts.ValidHeaderFieldName(name):
		return errors.New("not a header: as in -H 'Name: value'")
	case ownHeaders[http.CanonicalHeaderKey(name)]:
		return errors.New("a request is sent without it: it follows from the body")
	case !httpguts.ValidHeaderFieldValue(value):
		return errors.New("a value with control characters")
	case strings.EqualFold(name, "Host") && strings.ContainsAny(value, "/ "):
		return errors.New("not a host")
	}
	f.Header.Set(name, value)
	return nil
}

func (f *Flags) check() error {
	switch {
	case f.Workers < 1 || f.Workers > mostWorkers:
		return fmt.Errorf("-c %d is not from 1 to %d workers", f.Workers, mostWorkers)
	case f.PerWorker != 0 && !(f.PerWorker >= slowestWorker && f.PerWorker <= fastestWorker):
		return fmt.Errorf("-q %v is not from %v to %v requests per second and worker: for less load, take fewer "+
			"workers (-c)", f.PerWorker, slowestWorker, fastestWorker)
	case f.Requests < 0 || f.Requests > mostRequests:
		return fmt.Errorf("-n %d is not from 1 to %d requests; without -n the load goes on as long as the run",
			f.Requests, mostRequests)
	case f.Requests > 0 && f.Duration == 0 && f.Requests < f.Workers:
		return fmt.Errorf("-n %d cannot be less than -c %d", f.Requests, f.Workers)
	case f.Duration < 0:
		return fmt.Errorf("-z %v is negative", f.Duration)
	case f.Timeout < 0 || f.Timeout > longestTimeout:
		return fmt.Errorf("-t %d is not from 0 to %d seconds; 0 waits for ever", f.Timeout, longestTimeout)
	case !httpguts.ValidHeaderFieldName(f.Method): // a method is a token, as a header's name is
		return fmt.Errorf("-m %q is not a method", f.Method)
	}
	return nil
}

// masked stands for what may be a secret.
const masked = "***"

// Public returns args without what may be a secret: the values of headers, and the body.
func Public(args string) string {
	words, err := shellquote.Split(args)
	if err != nil {
		return masked
	}
	secret := "" // the flag whose value is next
	for i, word := range words {
		name, value, joined := strings.Cut(word, "=")
		switch flag := strings.TrimLeft(name, "-"); {
		case secret != "":
			words[i], secret = hide(secret, word), ""
		case flag == name || flag != "H" && flag != "d":
		case joined:
			words[i] = name + "=" + hide(flag, value)
		default:
			secret = flag
		}
	}
	return timeline.JoinCommand(words)
}

// Hides reports whether there is something in args that [Public] leaves out.
func Hides(args string) bool {
	words, err := shellquote.Split(args)
	return err != nil || Public(args) != timeline.JoinCommand(words)
}

// hide returns the value of a flag without what may be a secret.
func hide(flag, value string) string {
	name, _, found := strings.Cut(value, ":")
	if flag == "H" && found {
		return name + ": " + masked
	}
	return masked
}
