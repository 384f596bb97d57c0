package otlp

import (
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"

	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"lapse/correlate/model"
	"lapse/internal/hint"
)

// sampled is the flag of W3C Trace Context that a trace is recorded.
const sampled = 1

// A parent is the span that a run is part of; the zero value is none.
type parent struct {
	trace, span []byte
	flags       uint32
}

// Check returns an error with a hint if the environment names a parent or a resource that cannot be read.
func Check(env Env) error {
	_, err := Trace(&model.Timeline{}, env)
	return err
}

// parentOf reads $TRACEPARENT.
// https://opentelemetry.io/docs/specs/otel/context/env-carriers/
func parentOf(env Env) (parent, error) {
	text := env("TRACEPARENT")
	if text == "" {
		return parent{}, nil
	}
	p, why := parseParent(text)
	if why != "" {
		return parent{}, hint.Errorf(
			"the pipeline's tracing sets it, as VERSION-TRACE-SPAN-FLAGS: "+
				"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01; unset it for a trace of its own",
			"TRACEPARENT %q is not valid: %s", text, why)
	}
	return p, nil
}

// parseParent reads a traceparent, or says why it is none.
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
func parseParent(text string) (p parent, why string) {
	const fields = "00-00000000000000000000000000000000-0000000000000000-00"
	version, rest, _ := strings.Cut(text, "-")
	switch {
	case len(text) < len(fields):
		return p, "it is too short"
	case version == "00" && len(text) > len(fields), len(text) > len(fields) && text[len(fields)] != '-':
		return p, "it is too long"
	case version == "ff":
		return p, "there is no version ff"
	}
	words := strings.Split(rest, "-")
	ids := [][]byte{hexOf(version, 1)}
	for i, size := range []int{16, 8, 1} {
		if i < len(words) {
			ids = append(ids, hexOf(words[i], size))
		}
	}
	switch {
	case len(ids) < 4 || slices.ContainsFunc(ids, func(id []byte) bool { return id == nil }):
		return p, "a field is not as many digits 0-9 and a-f as it must be"
	case allZero(ids[1]):
		return p, "its trace ID is zero"
	case allZero(ids[2]):
		return p, "its span ID is zero"
	}
	return parent{trace: ids[1], span: ids[2], flags: uint32(ids[3][0])}, ""
}

// hexOf returns so many bytes, written in lower case, or nil.
func hexOf(text string, size int) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != size || strings.ToLower(text) != text {
		return nil
	}
	return bytes
}

func allZero(id []byte) bool { return !slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) }

// resourceOf returns what the trace is about: this program, or what $OTEL_SERVICE_NAME and $OTEL_RESOURCE_ATTRIBUTES
// say.
// https://opentelemetry.io/docs/specs/otel/resource/sdk/
func resourceOf(tl *model.Timeline, env Env) (*resourcepb.Resource, error) {
	values := map[string]string{"service.name": "lapse", "service.version": tl.Tool.Version}
	given, err := listOf(env, "OTEL_RESOURCE_ATTRIBUTES")
	if err != nil {
		return nil, err
	}
	maps.Copy(values, given)
	if name := env("OTEL_SERVICE_NAME"); name != "" {
		values["service.name"] = name
	}
	var a attributes
	for _, key := range slices.Sorted(maps.Keys(values)) {
		a.text(key, values[key])
	}
	return &resourcepb.Resource{Attributes: a}, nil
}

// listOf reads a variable of the form KEY=VALUE,KEY=VALUE. Values may have %XX for a byte.
func listOf(env Env, name string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(env(name), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil {
			// not the value: it may be a secret
			const advice = "KEY=VALUE,KEY=VALUE; in a value, %2C is a comma"
			return nil, hint.Errorf(advice, "%s is not a list of KEY=VALUE", name)
		}
		values[key] = value
	}
	return values, nil
}
