package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/internal/guard"
	"lapse/internal/layer"
	"lapse/internal/run/access"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/watcher"
)

// A guard finds the annotated Service, measures what nobody has announced to it, and answers for it: one run each, and
// an Event.
func TestAGuardMeasuresWhatNobodyAnnounced(t *testing.T) {
	layer.Real(t)
	shop, kubeconfig := startLivingShop(t)
	dir := filepath.Join(t.TempDir(), "runs")
	config, token := filepath.Join(t.TempDir(), "flags"), filepath.Join(t.TempDir(), "token")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, "--rate=50\n--idle-rate=10\n")
	write(token, "an-example-of-a-token")
	gate, status := freeAddress(t), freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Main(ctx, []string{"lapse", "guard", "-n=living", "--kubeconfig=" + kubeconfig, "--out=" + dir, "--listen=" + gate, "--status-listen=" + status,
			"--config=" + config, "--token-file=" + token, "--settle=2s", "--target=new"}, &stdout, &stderr)
	}()
	is := func(state coordinator.Standby, runs int) func() bool {
		return func() bool {
			r, err := guard.Ask(t.Context(), http.DefaultClient, status)
			all := r.Services
			return err == nil && len(all) == 1 && all[0].Service == "living/web" && all[0].State == state && all[0].Runs == runs
		}
	}
	asks := func(since time.Time) (int, string) {
		var said, trouble bytes.Buffer
		code := Main(t.Context(), []string{"lapse", "gate", "svc/web", "-n=living", "--since=" + since.Format(time.RFC3339Nano), "--wait=1m", "--guard=http://" + gate}, &said, &trouble)
		return code, said.String() + trouble.String()
	}
	runtest.WaitFor(t, "the Service to be guarded", is(coordinator.Idle, 0))
	before := time.Now()
	shop.replace()
	if code, said := asks(before); code != 0 && code != 4 || !strings.Contains(said, "0 of ") {
		t.Errorf("after a Pod was replaced: %d %s", code, said)
	}
	runtest.WaitFor(t, "it to wait again", is(coordinator.Idle, 1))
	var armed bytes.Buffer
	if code := Main(t.Context(), []string{"lapse", "guard", "arm", "svc/web", "-n=living", "--token-file=" + token, "--guard=http://" + gate}, &armed, &armed); code != 0 {
		t.Errorf("arm: %d %s", code, &armed)
	}
	runtest.WaitFor(t, "the Service to be armed", is(coordinator.Raised, 1))
	before = time.Now()
	shop.crash()
	if code, said := asks(before); code != 3 || !strings.HasPrefix(said, "FAIL ") {
		t.Errorf("after a crash: %d %s", code, said)
	}
	write(config, "--rat=50\n")
	runtest.WaitFor(t, "the guard to say that its flags are wrong", func() bool {
		r, err := guard.Ask(t.Context(), http.DefaultClient, status)
		return err == nil && strings.Contains(r.Problem, `"--rat=50" is no flag`) && len(r.Services) == 1
	})
	page := fetch(t, "http://"+status+"/") + fetch(t, "http://"+status+"/api/v1/runs") + fetch(t, "http://"+status+"/api/v1/now")
	for _, want := range []string{`id="page" data-runs`, `"services":["living/web"]`, `"word":"FAIL"`, `"service":"living/web","days":[`, `"speaks":"this"`, `--rat=50`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if h, err := guard.History(t.Context(), http.DefaultClient, status); err != nil || len(h.Lines) != 2 || len(h.Unread) != 0 {
		t.Errorf("the history is %+v, %v", h, err)
	}
	fetched, names := filepath.Join(t.TempDir(), "fetched"), []string{}
	for range 2 {
		note := func(run string) { names = append(names, run) }
		if err := guard.Fetch(t.Context(), http.DefaultClient, status, fetched, note); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(names, saved.Runs(fetched)) || len(names) != 2 {
		t.Errorf("fetched %q, and there are %q", names, saved.Runs(fetched))
	}
	var report bytes.Buffer
	if code := Main(t.Context(), []string{"lapse", "report", filepath.Join(fetched, names[1])}, &report, &report); code != 3 {
		t.Errorf("of the second run it says %d\n%s", code, &report)
	}
	series := fetch(t, "http://"+gate+"/metrics")
	for _, want := range []string{
		`lapse_requests_total\{kind="new",outcome="failed",service="living/web"\} [1-9]`, `lapse_observed_seconds_total\{service="living/web",state="up"\} [0-9.]*[1-9]`,
		`lapse_downtime_seconds_total\{bound="min",service="living/web"\} [0-9.]*[1-9]`, `lapse_disruptions_total\{service="living/web",trigger="[a-z-]+",verdict="fail"\} 1`,
		`lapse_guard_lead_seconds_count\{sign="endpoint"\} [1-9]`,
	} {
		if !regexp.MustCompile(want).MatchString(series) {
			t.Errorf("no series %s in\n%s", want, series)
		}
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d: %s", got, &stderr)
	}
	text, _ := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
	if runs := saved.Runs(dir); len(runs) != 2 || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%q, and the history\n%s\n%s", runs, text, &stderr)
	}
	if len(shop.told) != 2 {
		t.Fatalf("%d Events\n%s", len(shop.told), &stderr)
	}
	for i, e := range shop.told {
		on := e.InvolvedObject
		if on.Kind != "Service" || on.Name != "web" || on.UID != "service" || !strings.Contains(e.Message, "; run "+saved.Runs(dir)[i]) {
			t.Errorf("%+v", e)
		}
	}
	if e := shop.told[1]; e.Type != "Warning" || e.Reason != "RequestsDropped" {
		t.Errorf("%+v", e)
	}
}

// A guard has a budget also if nobody sets one: enough for one Service at any rate.
func TestTheBudgetOfAGuardIsEnoughForOneService(t *testing.T) {
	for args, want := range map[string]float64{"": 4000, "--rate=1000": 7000, "--rate=1000 --direct-rate=0": 4000, "--rate=100 --max-rate=700": 700} {
		var c guardCommand
		f := c.flags()
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if s, err := c.settings(f); err != nil || s.MaxRate != want {
			t.Errorf("%s: %+v, %v", args, s, err)
		}
	}
}

// A disruption cannot settle for longer than its run may last.
func TestAGuardRefusesToSettleForLong(t *testing.T) {
	for settle, want := range map[string]string{"15m": "", "16m": "settle 16m0s: must be at most 15m0s", "10h": "settle 10h0m0s: must be at most 15m0s"} {
		var c guardCommand
		f := c.flags()
		if err := f.Parse([]string{"--settle=" + settle}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.settings(f); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settle, err)
		}
	}
}

// What a guard would refuse is not printed.
func TestGenGuardRefusesWhatAGuardDoes(t *testing.T) {
	var said, trouble bytes.Buffer
	if code := Main(t.Context(), []string{"lapse", "gen", "guard", "-A", "--", "--rate=100", "--max-rate=50"}, &said, &trouble); code != 2 || said.Len() > 0 {
		t.Errorf("%d %s%s", code, &said, &trouble)
	}
	const want = `one Service can take 700 requests per second, with --rate 100 to each target and up to 5 times --direct-rate 100`
	if text := strings.Join(strings.Fields(trouble.String()), " "); !strings.Contains(text, want) {
		t.Errorf("it says %s", text)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatal(reply.Status, err)
	}
	return string(body)
}

// freeAddress returns an address where nothing listens now.
func freeAddress(t testing.TB) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// The owner of a Service says how it is asked, and whoever runs the guard how it is measured.
func TestAnnotationsSayHowAServiceIsAsked(t *testing.T) {
	of := func(annotations map[string]string, flags ...string) (string, error) {
		o, err := guardOptions(access.Kube{}, flags)(watcher.Marked{Namespace: "shop", Name: "web", Annotations: annotations})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(o.Parsed[0], " ", o.Scheme, " ", o.ExpectStatus, " ", o.Settle, " ", o.GateExprs, " ", o.Rate, " ", o.Namespace, " ", o.Armed, o.Here), nil
	}
	for _, test := range []struct {
		annotations map[string]string
		flags       []string
		want        string
	}{
		{nil, nil, "svc/web/ http 200-499 1m0s [failed>0] 200 shop true true"},
		{map[string]string{"guard": "on", "port": "8080", "path": "healthz", "scheme": "https", "expect-status": "200"}, nil, "svc/web:8080/healthz https 200 1m0s [failed>0] 200 shop true true"},
		{map[string]string{"guard": "on", "scheme": "grpc"}, nil, "svc/web/ grpc 200-499 1m0s [failed>0] 200 shop true true"},
		{map[string]string{"guard": "on", "scheme": "tcp"}, []string{"--expect-status=200"}, "svc/web/ tcp 200 1m0s [failed>0] 200 shop true true"},
		{nil, []string{"--expect-status=200"}, "svc/web/ http 200 1m0s [failed>0] 200 shop true true"},
		{nil, []string{"--settle=10s", "--fail-if=failed>5", "--rate=50"}, "svc/web/ http 200-499 10s [failed>5] 50 shop true true"},
	} {
		if got, err := of(test.annotations, test.flags...); err != nil || got != test.want {
			t.Errorf("%v %q: %s %v\nwant %s", test.annotations, test.flags, got, err, test.want)
		}
	}
	for _, bad := range []map[string]string{{"pth": "/"}, {"scheme": "gopher"}, {"expect-status": "many"}} {
		if got, err := of(bad); err == nil {
			t.Errorf("%v is taken: %s", bad, got)
		}
	}
}

// Flags come from a file as well; the command line counts.
func TestAGuardReadsFlagsFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flags")
	read := func(text string, args ...string) ([]string, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := newGuard()
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		err := readFlags(cmd.Flags(), file)
		return givenTo(cmd.Flags(), append(slices.Clone(guardFlags), "keep-size")), err
	}
	got, err := read("# how\n--rate=50\n\n--fail-if=failed>0\n--fail-if=errors>1%\n--keep-size=2Gi\n", "--rate=20")
	if want := []string{"--fail-if=failed>0", "--fail-if=errors>1%", "--keep-size=2Gi", "--rate=20"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	for _, bad := range []string{"--rate", "--rat=5", "--rate=fast", "rate 5"} {
		if _, err := read(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Flags in the file count again when they change. What is wrong, or counts only at the start, is refused until it is
// mended.
func TestAGuardReadsItsFileAgain(t *testing.T) {
	dir := t.TempDir()
	file, written := filepath.Join(dir, "flags"), 0
	write := func(text string) { // as a kubelet does: it swaps the link to the folder of all files
		written++
		next := filepath.Join(dir, fmt.Sprint("..", written))
		err := errors.Join(os.Mkdir(next, 0o700), os.WriteFile(filepath.Join(next, "flags"), []byte(text), 0o600),
			os.Symlink(filepath.Base(next), filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if _, missing := os.Lstat(file); missing != nil {
			err = errors.Join(err, os.Symlink("..data/flags", file))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const first = "--rate=50\n--listen=:7200\n"
	write(first)
	var c guardCommand
	start := c.flags()
	if err := start.Parse([]string{"-n=shop", "--settle=5s"}); err != nil {
		t.Fatal(err)
	}
	reread := rereadFlags(file, start)
	if err := readFlags(start, file); err != nil {
		t.Fatal(err)
	}
	if s, err := reread(); s != nil || err != nil {
		t.Errorf("without a change: %v %v", s, err)
	}
	is := func(rate float64) {
		t.Helper()
		s, err := reread()
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Options(watcher.Marked{Namespace: "shop", Name: "web"})
		if err != nil || o.Rate != rate || o.Settle != 5*time.Second || s.Limits.Bytes != 2<<30 {
			t.Errorf("%v, rate %v, settle %v, %+v", err, o.Rate, o.Settle, s.Limits)
		}
		if s, err := reread(); s != nil || err != nil {
			t.Errorf("after the change: %v %v", s, err)
		}
	}
	write(first + "--keep-size=2Gi\n--settle=9s\n")
	is(50)
	for text, want := range map[string]string{
		"--rate=fast\n--listen=:7200\n":         "--rate=fast",
		"--rat=5\n--listen=:7200\n":             "--rat=5",
		"--rate=0\n--listen=:7200\n":            "must be greater than 0",
		"--rate=20\n":                           "--listen counts only when the guard starts",
		first + "--keep-size=much\n":            "keep-size",
		first + "--max-rate=0\n":                "max-rate 0: must be greater than 0",
		first + "--max-rate=-1\n":               "max-rate -1: must be greater than 0",
		first + "--max-rate=+Inf\n":             "max-rate +Inf: must be greater than 0",
		first + "--max-rate=349\n":              "one Service can take 350 requests per second",
		first + "--all-namespaces=true\n":       "--all-namespaces counts only when the guard starts",
		first + "--settle=-9s\n--timeout=-9s\n": "timeout",
	} {
		write(text)
		for range 2 {
			if s, err := reread(); s != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v %v", text, s, err)
			}
		}
	}
	write("--rate=20\n--listen=:7200\n--keep-size=2Gi\n--max-rate=140\n")
	is(20)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if s, err := reread(); s != nil || err == nil {
		t.Errorf("without the file: %v %v", s, err)
	}
	write("--rate=20\n--listen=:7200\n--keep-size=2Gi\n--max-rate=140\n")
	if s, err := reread(); s != nil || err != nil {
		t.Errorf("when it is back: %v %v", s, err)
	}
}
