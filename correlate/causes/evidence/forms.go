package evidence

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A form is how an ending Pod fails.
type form int

const (
	listensNoMore form = iota
	CutsAll            // it accepts connections, and closes them without a whole answer
	AnswersErrors      // it answers, with errors
	isSilent           // it accepts connections and does not answer
	failsTLS           // it accepts connections, and no handshake succeeds
)

func formOf(class timeline.Class) form {
	switch class {
	case timeline.Reset, timeline.EOF, timeline.Body:
		return CutsAll
	case timeline.HTTP5xx, timeline.HTTP4xx, timeline.Other:
		return AnswersErrors
	case timeline.TimeoutResponse:
		return isSilent
	case timeline.TLS:
		return failsTLS
	}
	return listensNoMore
}

// A FormCount counts, by form, the failures that an ending Pod can explain.
type FormCount struct {
	forms  map[form]int
	status map[uint16]int // of those that were answered
}

func (c *FormCount) add(f *model.Failure, long time.Duration) {
	if c.forms == nil {
		c.forms, c.status = map[form]int{}, map[uint16]int{}
	}
	how := formOf(f.Class)
	if how == CutsAll && f.Latest()-f.Earliest() > long { // it waited, and was cut when the process ended
		how = isSilent
	}
	c.forms[how]++
	if how == AnswersErrors && f.Code > 0 {
		c.status[f.Code]++
	}
}

// Most returns the most frequent form. Of several, one that says more than that the Pod did not listen.
func (c *FormCount) Most() form {
	if c == nil {
		return listensNoMore
	}
	most := listensNoMore
	for f := range failsTLS + 1 {
		if c.forms[f] > c.forms[most] {
			most = f
		}
	}
	return most
}

// Begun says what a Pod had done when requests to it began to fail: "had stopped".
func (c *FormCount) Begun(v *Traffic, target string) string {
	if c == nil {
		return "had stopped"
	}
	switch c.Most() {
	case CutsAll:
		return "had stopped"
	case AnswersErrors:
		return "had begun to answer with " + c.Answer(v, target)
	case isSilent:
		return "had ceased to answer, but still accepted connections"
	case failsTLS:
		return "had ceased to complete TLS handshakes"
	}
	return "had stopped"
}

// Answer names the status that most were answered with.
func (c *FormCount) Answer(v *Traffic, target string) string {
	var code uint16
	for status, n := range c.status {
		if n > c.status[code] || n == c.status[code] && status < code {
			code = status
		}
	}
	for _, e := range v.Errors {
		if e.Object.Name == target && e.Status > 0 && (e.Status == code || code == 0) {
			return e.Detail
		}
	}
	switch {
	case code == 0:
		return "errors"
	case code < 100:
		return fmt.Sprintf("grpc-status %d", code)
	}
	return fmt.Sprintf("status %d", code)
}

// AsksAnother reports whether a proxy that cannot reach its server answers like this.
func (c *FormCount) AsksAnother() bool {
	const unavailable = 14 // grpc-status
	return c.status[502]+c.status[503]+c.status[504]+c.status[unavailable] > 0
}

// CannotReach reports whether only a proxy that cannot reach its server answers like this.
func (c *FormCount) CannotReach() bool { return c != nil && c.status[502]+c.status[504] > 0 }
