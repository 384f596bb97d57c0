package screen

import (
	"net/http"
	"strings"
	"testing"

	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

// A run that waits for a disruption begins late. Prometheus is answered until then, too.
func TestMetricsAreServedBeforeTheRunBegins(t *testing.T) {
	layer.Real(t)
	var told runtest.Buffer
	s, err := Open(Addresses{Metrics: "127.0.0.1:0"}, &told, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runtest.WaitFor(t, "the address", func() bool { return strings.Contains(told.String(), "/metrics\n") })
	_, url, _ := strings.Cut(told.String(), "metrics: ")
	response, err := http.Get(strings.TrimSpace(url))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}
