package engine

import (
	"cmp"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// errorTexts are the errors behind failures whose class is ambiguous: a certificate of an unknown
// authority and one for another name are both tls. Of each target and class the first few different texts are recorded,
// and once more after a time without such a failure: a guard has a run of each disruption.
type errorTexts struct {
	mu       sync.Mutex
	recorded map[errorKey]*recorded
	new      []timeline.Event // not yet handed on
}

// recorded are texts without what varies, and when a request of their target and class failed last.
type recorded struct {
	forms []string
	last  time.Duration
}

// errorKey is what texts are counted by.
type errorKey struct {
	target string
	class  timeline.Class
}

const (
	maxTexts    = 3               // per target and class
	longestText = 300             // bytes; longer ones are cut
	textsFor    = 5 * time.Second // without such a failure; a run takes longer to settle
)

// ambiguousClasses do not say by themselves what went wrong.
var ambiguousClasses = []timeline.Class{
	timeline.DNS, timeline.TLS, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body, timeline.Local, timeline.Other,
}

// record keeps why r, a request to target, failed, if it did and the class does not say it all.
func (e *errorTexts) record(target string, r timeline.Request, err error) {
	_, announced := errors.AsType[wire.AnnouncedEnd](err)
	if err == nil || !announced && !slices.Contains(ambiguousClasses, r.Class) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.recorded == nil {
		e.recorded = map[errorKey]*recorded{}
	}
	which := errorKey{target, r.Class}
	texts := e.recorded[which]
	if texts == nil || r.Sent-texts.last > textsFor {
		texts = &recorded{}
		e.recorded[which] = texts
	}
	texts.last = max(texts.last, r.Done)
	if len(texts.forms) >= maxTexts {
		return
	}
	text := errorText(err)
	form := varying.ReplaceAllString(text, "#")
	if slices.Contains(texts.forms, form) {
		return
	}
	texts.forms = append(texts.forms, form)
	e.new = append(e.new, timeline.Event{
		Kind: timeline.RequestError, Since: r.Sent, Seen: r.Done, To: r.Class.String(), Detail: text,
		Object: timeline.Object{Kind: "Target", Name: target}, Status: r.Code,
	})
}

// Forget lets go of what was recorded of a target.
func (e *errorTexts) Forget(target string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.recorded, func(of errorKey, _ *recorded) bool { return of.target == target })
}

// Take returns what was recorded since the last call.
func (e *errorTexts) Take() []timeline.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.new
	e.new = nil
	return taken
}

// errorText returns an error without what differs from connection to connection.
func errorText(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Net != "" {
		err = cmp.Or(op.Err, err)
	}
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = invalid.Err
	}
	text := strings.ToValidUTF8(strings.TrimPrefix(PlainError(err.Error()), "tls: "), "\uFFFD")
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return text
}

// varying is what differs in texts that say the same: times of day, dates, durations, identifiers, long numbers. Short
// numbers, such as a status, do say something.
var varying = regexp.MustCompile(`\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}:\d{2}(:\d{2})?([.,]\d+)?|` +
	`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|` +
	`\b([0-9a-f]{8,}|[0-9A-F]{8,})\b|\d{4,}|\b\d+(\.\d+)?(ns|µs|us|ms|s)\b`)

// localEnd is our own end of a connection in an error: "10.0.0.1:43210->".
var localEnd = regexp.MustCompile(`(\[[^\]\s]*\]|[^\s\[\]:]+):\d+->`)

// requestPrefix is what net/http puts in front of an error: `Get "http://host/": `.
var requestPrefix = regexp.MustCompile(`^[A-Z][a-z]* "[^"]*": `)

// PlainError returns an error's text without what differs from connection to connection: local ports, and the request
// that net/http puts first.
func PlainError(text string) string {
	return localEnd.ReplaceAllString(requestPrefix.ReplaceAllString(text, ""), "")
}
