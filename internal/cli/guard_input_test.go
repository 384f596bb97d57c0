package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/kube/kubetest"
)

// Who mistypes what is about a guard is told what is wrong, and what to do: of a flag, not of annotations that nobody
// has written, and with the exit code of bad arguments.
func TestBadArgumentsOfAGuardAreRefused(t *testing.T) {
	api := httptest.NewServer(fakeAPI(newLivingShop(1)))
	defer api.Close()
	listening := freeAddress(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	twoLines := filepath.Join(t.TempDir(), "token")
	for file, text := range map[string]string{kubeconfig: kubetest.Kubeconfig(api.URL), twoLines: "a-token-of-one-line\nand-another"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, test := range []struct{ args, says, hint string }{
		{"guard staus", `unknown verb "staus"`, "did you mean status?"},
		{"guard --rate=0", "rate 0: must be greater than 0", "--rate is in requests per second"},
		{"guard --fail-if=foo", `unknown metric "foo"`, "known are failed, "},
		{"guard --scheme=gopher", `scheme "gopher"`, "see `lapse guard --help`"},
		{"guard --config=/dev/zero", "/dev/zero has more than 1 MiB", "give another --config"},
		{"guard --token-file=/dev/zero", "/dev/zero has more than 1 MiB", "openssl rand -hex 32"},
		{"guard --token-file=" + twoLines, "has a token with a blank or a letter that no HTTP header takes", "openssl rand -hex 32"},
		{"guard --out=OUT --listen=99999", "--listen: listen tcp: address 99999: missing port", "as in --listen 127.0.0.1:7200"},
		{"guard --out=OUT --listen=" + listening + " --status-listen=" + listening, "--status-listen: listen tcp " + listening + ": bind: address already in use", "as in --status-listen"},
		{"guard --out=/dev/null", "the run's directory: ", "name another directory with --out"},
		{"guard --out=OUT -n=forbidden --listen=" + listening + " --status-listen=" + freeAddress(t), "no right to list services", "kubectl auth can-i list services -n forbidden"},
		{"gen guard -A --placement=/dev/zero", "/dev/zero has more than 1 MiB", "see `lapse gen guard --help`"},
		{"guard status -o yaml", `unknown output format "yaml"`, "one of: json, table"},
		{"guard status --at http://" + listening + "/", "the guard does not answer: dial tcp " + listening, "does a guard run there?"},
		{"guard arm svc/web:80", `"svc/web:80" is not a Service`, "as in svc/web"},
		{"gate svc/web", "ask about a hash, a node, a run, or since when", "see `lapse gate --help`"},
		{"gate svc/web --since=5m", `--since "5m": must be a time such as 2026-11-26T10:15:00Z`, "date -u +%FT%TZ"},
		{"gate svc/web --none-passes", "goes with since, and without hash, node and run", "see `lapse gate --help`"},
		{"gate svc/web --hash=a --context=nope", "context was not found for specified context: nope", "the contexts are test"},
		{"gate svc/web --hash=a -o yaml", `unknown output format "yaml"`, "one of: json, table"},
	} {
		var said bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(test.args, "OUT", t.TempDir()))
		code := Main(t.Context(), append([]string{"lapse"}, args...), &said, &said)
		if code != 2 || !strings.Contains(said.String(), test.says) || !strings.Contains(said.String(), test.hint) {
			t.Errorf("%s: exit code %d\n%s\nwant %s; hint: %s", test.args, code, &said, test.says, test.hint)
		}
	}
}

// An API server that does not answer leaves the verdict open: it may answer soon.
func TestTheGateWaitsForTheAPIServer(t *testing.T) {
	kubeconfig, address := filepath.Join(t.TempDir(), "kubeconfig"), freeAddress(t)
	if err := os.WriteFile(kubeconfig, []byte(kubetest.Kubeconfig("http://"+address)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, wait := range []time.Duration{0, 1500 * time.Millisecond} {
		var said bytes.Buffer
		began := time.Now()
		code := Main(t.Context(), []string{"lapse", "gate", "svc/web", "--hash=a", "--wait=" + wait.String()}, &said, &said)
		if code != 4 || !strings.HasPrefix(said.String(), "INCONCLUSIVE the API server at http://"+address+" does not answer: ") || time.Since(began) < wait {
			t.Errorf("after %v: %d %s", time.Since(began), code, &said)
		}
	}
}

// A verdict is JSON for a program, with the same exit code, and for people a line that no terminal obeys.
func TestTheGateIsToldAsJSON(t *testing.T) {
	answer := gate.Answer{State: gate.Fail, Reason: "1 of 9 failed\x1b[2J\nPASS", Run: "r1", Since: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { gate.Reply(w, 200, answer) }))
	defer server.Close()
	args := []string{"lapse", "gate", "svc/web", "-n=shop", "--hash=a", "--guard=" + server.URL}
	var said bytes.Buffer
	if code := Main(t.Context(), args, &said, &said); code != 3 || strings.Count(said.String(), "\n") != 1 || strings.Contains(said.String(), "\x1b") || !strings.HasPrefix(said.String(), "FAIL 1 of 9 failed") {
		t.Errorf("%d %q", code, &said)
	}
	said.Reset()
	var got gate.Answer
	code := Main(t.Context(), append(args, "-o", "json"), &said, &said)
	if err := json.Unmarshal(said.Bytes(), &got); err != nil || code != 3 || got != answer {
		t.Errorf("%d %v %s", code, err, &said)
	}
}

// Of lines that cannot be read there is no trend, and no date.
func TestThereIsNoTrendOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(file, []byte("{\"history\":99}\ngarbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"lapse", "trend", file}, &stdout, &stderr)
	if code != 6 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "written by a newer Lapse") || !strings.Contains(stderr.String(), "none of the runs and lines could be read") {
		t.Errorf("%d %s%s", code, &stdout, &stderr)
	}
}

// A bucket that refuses a guard, or its role, ends the guard at its start. One that does not answer, or not yet, must not
// keep it from measuring.
func TestABucketThatRefusesAGuardEndsIt(t *testing.T) {
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		if r.Method == http.MethodPost { // it is STS
			fmt.Fprint(w, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></ErrorResponse>")
		} else {
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/lapse")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	place := storeFlags{"s3://runs/prod", server.URL}
	ends := func(answer int32, says string) {
		t.Helper()
		status.Store(answer)
		b, err := place.opens(t.Context(), slog.New(slog.DiscardHandler))
		if says == "" && (err != nil || b == nil) || says != "" && (err == nil || err.Error() != "--store s3://runs/prod: "+says) {
			t.Errorf("answered %d: %v, %v", answer, b, err)
		}
	}
	ends(403, "the IAM role gives no key: "+strings.TrimPrefix(server.URL, "http://")+" answers 403 AccessDenied: Not authorized")
	ends(503, "")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	ends(403, "the key has no right to do that")
	ends(503, "")
	ends(200, "")
	var log strings.Builder
	place.endpoint = gone.URL
	if b, err := place.opens(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); b == nil || err != nil || !strings.Contains(log.String(), "runs wait on disk") {
		t.Errorf("a bucket that is away: %v, %v, and the log has %s", b, err, &log)
	}
}
