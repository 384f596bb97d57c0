package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

// A prometheus is Debian's, which scrapes a guard each second.
type prometheus struct {
	t       *testing.T
	address string
}

func startPrometheus(t *testing.T, guard string) prometheus {
	t.Helper()
	rules, err := filepath.Abs("../../deploy/chart/guard/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, dir := prometheus{t, freeAddress(t)}, t.TempDir()
	config := fmt.Sprintf(`{"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [%q],
		"scrape_configs": [{"job_name": "lapse", "static_configs": [{"targets": [%q]}]}]}`, rules, guard)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--enable-feature=native-histograms,exemplar-storage", "--log.level=warn")
	server.Stdout, server.Stderr = t.Output(), t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	return p
}

// finds reports whether a query has a result.
func (p prometheus) finds(query string) func() bool {
	return func() bool {
		reply, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		var said struct {
			Error string
			Data  struct{ Result []json.RawMessage }
		}
		if json.NewDecoder(reply.Body).Decode(&said) != nil {
			return false
		}
		if said.Error != "" {
			p.t.Fatalf("%s: %s", query, said.Error)
		}
		return len(said.Data.Result) > 0
	}
}

// Prometheus scrapes a guard, native histograms too, calls people for what dropped requests, and tells kured, which
// reads ALERTS, that it must not go on. A guard that is gone is no healthy one.
func TestPrometheusAlertsOnWhatAGuardMeasures(t *testing.T) {
	layer.Real(t)
	shop, kubeconfig := startLivingShop(t)
	gate := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"lapse", "guard", "-n=living", "--kubeconfig=" + kubeconfig, "--out=" + filepath.Join(t.TempDir(), "runs"),
			"--listen=" + gate, "--status-listen=" + freeAddress(t), "--rate=50", "--idle-rate=10", "--settle=2s", "--target=new"}, io.Discard, io.Discard)
	}()
	p := startPrometheus(t, gate)
	runtest.WaitFor(t, "the Service to be scraped", p.finds(`lapse_guard_state{service="living/web",state="idle"} == 1 and on() count_over_time(lapse_guard_leader[1m]) > 1`))
	runtest.WaitFor(t, "a native histogram", p.finds(`histogram_count(lapse_request_duration_seconds{service="living/web"}) > 5`))
	runtest.WaitFor(t, "no alert: it is measured", p.finds(`absent(ALERTS)`))
	shop.crash()
	for _, alert := range []string{"LapseServiceDroppedRequests", "LapseGateClosed"} {
		runtest.WaitFor(t, alert, p.finds(fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing",service="living/web",namespace="living"}`, alert)))
	}
	runtest.WaitFor(t, "the verdict", p.finds(`lapse_gate_state{service="living/web",state="fail"} == 1`))
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	runtest.WaitFor(t, "the guard to be missed", p.finds(`ALERTS{alertname="LapseBlind",alertstate="pending"}`))
}
