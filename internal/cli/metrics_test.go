package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

func TestPrometheusCountsTheRequestsOfARunThatGoesOn(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := runtest.StartServer(t)
	defer server.Close()
	stderr, ended := new(runtest.Buffer), make(chan int)
	go func() {
		ended <- Main(context.Background(), []string{"lapse", "run", server.URL(), "--duration", "3s", "--baseline", "1s",
			"--out", t.TempDir() + "/run", "--metrics", "127.0.0.1:0"}, io.Discard, stderr)
	}()
	served := regexp.MustCompile(`metrics: (http://\S+)`)
	runtest.WaitFor(t, "the address of metrics", func() bool { return served.MatchString(stderr.String()) })
	url := served.FindStringSubmatch(stderr.String())[1]
	counted := regexp.MustCompile(`lapse_requests_total\{kind="new",outcome="ok",service="[^"]+"\} [1-9]`)
	up := regexp.MustCompile(`lapse_observed_seconds_total\{service="[^"]+",state="up"\} [0-9.]*[1-9]`)
	var text string
	runtest.WaitFor(t, "requests, and time that was up", func() bool {
		r, err := http.Get(url)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		var body bytes.Buffer
		_, err = body.ReadFrom(r.Body)
		text = body.String()
		return err == nil && counted.MatchString(text) && up.MatchString(text)
	})
	if !strings.Contains(text, `lapse_sources{state="measuring"} 1`) {
		t.Error(text)
	}
	if code := <-ended; code != 0 && code != 4 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
