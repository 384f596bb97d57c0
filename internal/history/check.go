package history

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lapse/correlate/model"
)

// check returns what no line of a judged run can say. What passes has no character that a terminal obeys.
func (l *Line) check() error {
	if l.Run == "" || l.T0.IsZero() {
		return errNothing
	}
	for _, text := range l.texts() {
		if bad := strings.IndexFunc(text, unprintable); bad >= 0 || !utf8.ValidString(text) {
			return fmt.Errorf("%q is no name: it has a character that does not print", text)
		}
	}
	switch {
	case l.Service != "" && !serviceName.MatchString(l.Service):
		return fmt.Errorf("service %q is not NAMESPACE/NAME", l.Service)
	case l.Duration < 0:
		return fmt.Errorf("duration %v is negative", l.Duration)
	case l.Baseline < 0 || l.Baseline > l.Duration:
		return fmt.Errorf("baseline %v is not from 0 to the duration, %v", l.Baseline, l.Duration)
	case l.Sent < 0 || l.Failed < 0 || l.Failed > l.Sent:
		return fmt.Errorf("%d of %d requests failed", l.Failed, l.Sent)
	case (l.Sent == 0) != (l.Downtime == nil):
		return fmt.Errorf("a downtime belongs to requests: %d were sent", l.Sent)
	case l.Downtime != nil && (l.Downtime.Total.Min < 0 || l.Downtime.Total.Max < l.Downtime.Total.Min):
		return fmt.Errorf("downtime of %v to %v", l.Downtime.Total.Min, l.Downtime.Total.Max)
	case !(l.Coverage >= 0 && l.Coverage <= 1): // nor NaN
		return fmt.Errorf("coverage %v is not from 0 to 1", l.Coverage)
	case !slices.Contains(results, l.Verdict):
		return fmt.Errorf("unknown verdict %q", l.Verdict)
	case l.Recording != "" && !isSHA256(l.Recording):
		return fmt.Errorf("recording %q is no SHA-256", l.Recording)
	}
	for _, load := range l.Load {
		if !(load.Rate >= 0) || math.IsInf(load.Rate, 1) || load.Targets < 0 {
			return fmt.Errorf("load of %d targets at %v requests per second", load.Targets, load.Rate)
		}
	}
	return nil
}

var (
	results     = []model.Result{model.Pass, model.Fail, model.Inconclusive, model.Ungated}
	serviceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

func isSHA256(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 32
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// texts returns what comes from outside.
func (l *Line) texts() []string {
	all := []string{l.Run, l.Service, l.UID, l.Kubernetes, l.ProxyMode, l.Lapse}
	all = append(append(append(all, l.URLs...), l.Sources...), l.Release.Templates...)
	for _, t := range l.Triggers {
		all = append(all, string(t.Kind), t.Object)
	}
	for _, load := range l.Load {
		all = append(all, load.Kind)
	}
	for _, c := range l.Causes {
		all = append(all, c.Rule, string(c.Confidence))
	}
	return all
}
