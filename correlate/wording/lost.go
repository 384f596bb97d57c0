package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file says what became of requests, by their kind.

// A kindLoss is what became of the requests of one kind, of one Service. Failures and late answers are of different
// times: each has its own number of requests that were sent then.
type kindLoss struct {
	of             string
	sent, failed   int
	classes        map[string]int
	windows        []*model.Window // in which requests failed
	slow, slowSent int
}

func (k *kindLoss) share() float64 { return float64(k.failed) / float64(max(1, k.sent)) }

// failures says how many requests failed, and how, of those that were sent at such times; "" if none did.
func (k *kindLoss) failures(at string) string {
	if k.failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d%s failed (%s): %s",
		k.failed, k.sent, at, quantity.Percent(k.share()), classText(k.classes))
}

// late says how many answers were late; "" if none was.
func (k *kindLoss) late() string {
	text := ""
	switch {
	case k.slow == 0:
		return ""
	case k.slow == k.slowSent:
		text = quantity.Count(k.slow, "answer") + " came late"
	default:
		text = fmt.Sprintf("%d of %d answers came late", k.slow, k.slowSent)
	}
	if k.failed > 0 {
		return "besides, " + text
	}
	return text
}

// lost adds up windows by the kind of their requests, the one that lost most first.
func (s *scene) lost(windows []*model.Window) []*kindLoss {
	var kinds []*kindLoss
	for _, w := range windows {
		of := s.kindOf(w)
		i := slices.IndexFunc(kinds, func(k *kindLoss) bool { return k.of == of })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, &kindLoss{of: of, classes: map[string]int{}})
		}
		k := kinds[i]
		if w.Slow > 0 {
			k.slow, k.slowSent = k.slow+w.Slow, k.slowSent+w.Sent
		}
		if w.Failed == 0 {
			continue
		}
		k.sent, k.failed, k.windows = k.sent+w.Sent, k.failed+w.Failed, append(k.windows, w)
		for class, n := range w.Classes {
			k.classes[class] += n
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kindLoss) int {
		return cmp.Or(cmp.Compare(b.failed, a.failed), cmp.Compare(b.slow, a.slow))
	})
	return kinds
}

// kindOf names the requests of a window: "new connections", with their Service where the run has several.
func (s *scene) kindOf(w *model.Window) string {
	t := s.targets[w.Target]
	if t == nil {
		return w.Target
	}
	text := cmp.Or(kindWords[t.Kind], string(t.Kind))
	if t.Route != "" {
		text += " by " + t.Route
	}
	if several(s.tl) {
		text = t.Receiver() + " " + text
	}
	return text
}

// kindWords name the requests of a kind of target.
var kindWords = map[timeline.TargetKind]string{
	timeline.New:    "new connections",
	timeline.Reused: "requests on reused connections",
	timeline.Held:   "held connections",
}

// classText says how requests failed, the most frequent first; how many each only if they failed in several ways.
func classText(classes map[string]int) string {
	names := make([]string, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = cmp.Or(classWords[name], name)
		if len(names) > 1 {
			parts[i] = fmt.Sprintf("%d %s", classes[name], parts[i])
		}
	}
	return strings.Join(parts, ", ")
}

// classWords say how requests of a class failed.
var classWords = map[string]string{
	"eof":              "closed without an answer",
	"timeout_connect":  "no answer to connect",
	"timeout_response": "no answer",
	"dns":              "the name did not resolve",
	"tls":              "TLS failed",
	"http_5xx":         "status 5xx",
	"http_4xx":         "status 4xx",
	"body":             "the answer was cut short or not as expected",
	"no_slot":          "no connection was free",
}

// failedBetween returns when the first and the last request of incidents failed.
func failedBetween(incidents []*model.Incident) (from, to time.Duration, ok bool) {
	for _, in := range incidents {
		if in.FailedFrom == nil || in.FailedTo == nil {
			continue
		}
		if !ok || *in.FailedFrom < from {
			from = *in.FailedFrom
		}
		if !ok || *in.FailedTo > to {
			to = *in.FailedTo
		}
		ok = true
	}
	return from, to, ok
}
