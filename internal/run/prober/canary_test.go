package prober

import (
	"context"
	"net/http"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

// The Service's server answers with its name, goes on for a while after the signal to end, and then ends.
func TestCanaryAnswersWhileItEnds(t *testing.T) {
	layer.Real(t)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServeCanary(ctx, "127.0.0.17:8080", time.Second) }()
	answers := func() bool {
		response, err := http.Get("http://127.0.0.17:8080/")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK && response.Header.Get("X-Pod") != ""
	}
	runtest.WaitFor(t, "an answer", answers)
	end()
	if !answers() {
		t.Error("it does not answer once it has been asked to end")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if answers() {
		t.Error("it goes on for ever")
	}
}
