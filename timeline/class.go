package timeline

import "fmt"

// Class says how a request ended, in one word. The list is closed.
type Class uint8

const (
	OK              Class = iota // 2xx, or 3xx (redirects are not followed), whole and as expected
	Refused                      // ECONNREFUSED
	Reset                        // ECONNRESET or EPIPE
	EOF                          // closed by the peer before the reply's header was whole
	TimeoutConnect               // no connection within the timeout
	TimeoutResponse              // connected, but no whole reply within the timeout
	Unreachable                  // EHOSTUNREACH, ENETUNREACH
	DNS                          // the name did not resolve
	TLS                          // handshake or certificate
	HTTP5xx                      // a complete reply with status 500 to 599
	HTTP4xx                      // a complete reply with status 400 to 499
	Body                         // reply malformed, cut short, or not as expected

	// not sent: every allowed connection waited for an unresponsive target, or the connection of a held target was not
	// open. A failure of the target.
	NoSlot
	NotSent // not sent: the prober was too late. Unobserved, never down.
	// the prober's own fault: EMFILE, EADDRNOTAVAIL, ENOBUFS, or a failure that a stop of the prober may have caused.
	// Unobserved, never down.
	Local
	Other // none of the above
	NumClasses
)

var classNames = [NumClasses]string{
	"ok", "refused", "reset", "eof", "timeout_connect", "timeout_response", "unreachable", "dns",
	"tls", "http_5xx", "http_4xx", "body", "no_slot", "notsent", "local", "other",
}

// Failed reports whether the class is a failure of what was measured, and not of the prober.
func (c Class) Failed() bool { return c != OK && c.Observed() }

// Observed reports whether the class says anything about what was measured.
func (c Class) Observed() bool { return c != NotSent && c != Local }

// Timeout reports whether the request ended because the prober stopped waiting.
func (c Class) Timeout() bool { return c == TimeoutConnect || c == TimeoutResponse }

func (c Class) String() string {
	if c < NumClasses {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// MarshalText writes the class's name.
func (c Class) MarshalText() ([]byte, error) {
	if c >= NumClasses {
		return nil, fmt.Errorf("no request class %d", uint8(c))
	}
	return []byte(classNames[c]), nil
}

// UnmarshalText reads the class's name.
func (c *Class) UnmarshalText(text []byte) error {
	for i, name := range classNames {
		if name == string(text) {
			*c = Class(i)
			return nil
		}
	}
	return fmt.Errorf("no request class %q", text)
}
