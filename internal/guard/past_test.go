package guard

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"lapse/correlate/model"
	"lapse/internal/guard/configmap"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/saved"
)

// A past is a cluster with the ConfigMap of the last runs.
type past struct {
	*clientset.Clientset
	refused atomic.Bool // it cannot be written
	unread  atomic.Bool // it cannot be read
}

func newPast() *past {
	name := metav1.ObjectMeta{Namespace: "lapse", Name: "lapse-guard-history"}
	p := &past{Clientset: clientset.NewClientset(&corev1.ConfigMap{ObjectMeta: name})}
	p.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return p.refused.Load(), nil, errors.New("you may not patch it")
	})
	p.PrependReactor("get", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return p.unread.Load(), nil, errors.New("connection refused")
	})
	return p
}

// guard returns a guard that keeps its runs in a directory of its own, as a Pod does, and what is left of them there.
func (p *past) guard(t *testing.T, leader Leader) *fake {
	return newFakeWith(t, filepath.Join(t.TempDir(), "runs"), func(c *Config) {
		c.Leader = leader
		c.Past = &configmap.Map{
			ConfigMaps: kubetest.Client(p).ConfigMaps("lapse"), Name: "lapse-guard-history", Log: slog.New(slog.DiscardHandler),
		}
	})
}

// lines returns how many lines the ConfigMap has.
func (p *past) lines(t *testing.T) int {
	t.Helper()
	object, err := p.CoreV1().ConfigMaps("lapse").Get(t.Context(), "lapse-guard-history", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(object.Data["history.ndjson"], "\n")
}

// get returns what the guard's private address answers.
func (f *fake) get(path string) (int, string) {
	w := httptest.NewRecorder()
	f.private().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
	return w.Code, w.Body.String()
}

// When all guards have gone with their runs, the next one answers for these, and tells Prometheus. Their lines are fetched, and theirs alone: those of its own runs are in their directories.
func TestTheNextGuardKnowsRunsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast()
		first := p.guard(t, nil)
		first.guards("shop/web")
		first.disrupt("shop/web", 3)()
		failed := first.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		first.stop()

		next := p.guard(t, nil)
		next.guards("shop/web")
		if again := next.asked("service=shop/web&run="+failed.Run, 200, gate.Fail); again != failed {
			t.Errorf("the next guard says %+v, not %+v", again, failed)
		}
		next.asked("service=shop/web&node=node1", 200, gate.Fail)
		if !next.exports(`lapse_disruption_failed_requests{service="shop/web"} 3`) {
			t.Error("Prometheus is told nothing of it")
		}
		time.Sleep(time.Minute) // of virtual time: a run begins after its guard did
		next.disrupt("shop/web", 0)()
		next.asked("service=shop/web&hash=5f9dd68475", 200, gate.Pass)
		if _, all := next.get(historyPath); strings.Count(all, "\n") != 2 {
			t.Errorf("the history has %s", all)
		}
		if _, page := next.get("/api/v1/runs"); strings.Count(page, `"gone":true`) != 1 || strings.Count(page, `"name"`) < 2 ||
			!strings.Contains(page, `"headline":"`+failed.Reason+`"`) {
			t.Errorf("the page lists %s", page)
		}
		if code, _ := next.get("/run/" + failed.Run + "/"); code != http.StatusNotFound {
			t.Errorf("the page of a run that is gone is %d", code)
		}
		if _, gone := next.get(historyPath + "?gone=1"); strings.Count(gone, "\n") != 1 || !strings.Contains(gone, failed.Run) {
			t.Errorf("gone are %s", gone)
		}
	})
}

// Of two guards the one that leads keeps a run. The other one has measured the same disruption: its line
// is not fetched beside that run.
func TestTheGuardThatLeadsKeepsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast()
		one, two := &elected{}, &elected{}
		one.leads.Store(true)
		two.other = "10.0.0.1:7117"
		leader, other := p.guard(t, one), p.guard(t, two)
		for _, f := range []*fake{leader, other} {
			f.guards("shop/web")
		}
		end, endOther := leader.disrupt("shop/web", 0), other.disrupt("shop/web", 0)
		end()
		endOther()
		if n := p.lines(t); n != 1 {
			t.Errorf("%d lines", n)
		}
		if _, gone := other.get(historyPath + "?gone=1"); gone != "" {
			t.Errorf("it takes for gone what it has measured itself: %s", gone)
		}
	})
}

// An Event names the run of the guard that led then. The next one has measured the same as a run of its own, and answers
// for both. Whoever asks for runs that never were does not make it read the ConfigMap each time.
func TestTheNextLeaderKnowsTheRunsThatEventsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast()
		one, two := &elected{}, &elected{other: "10.0.0.1:7117"}
		one.leads.Store(true)
		leader, next := p.guard(t, one), p.guard(t, two)
		leader.guards("shop/web", "shop/api")
		next.guards("shop/web", "shop/other")
		end, endToo := leader.disrupt("shop/web", 3), next.disrupt("shop/web", 0)
		end()
		endToo()
		leader.disrupt("shop/api", 0)()
		led, unguarded := leader.status("shop/web").Last.Run, leader.status("shop/api").Last.Run
		leader.stop()
		time.Sleep(othersFor) // of virtual time
		two.leads.Store(true)
		two.other = ""

		a := next.asked("service=shop/web&run="+led, 200, gate.Fail)
		if a.Run != led || !strings.HasPrefix(a.Reason, "3 of ") {
			t.Errorf("of the run that an Event names: %+v", a)
		}
		next.asked("service=shop/web&node=node1", 200, gate.Pass) // its own run
		next.asked("service=shop/api&run="+unguarded, 404, "")
		next.asked("service=shop/other&run="+led, 404, "")
		p.ClearActions()
		for range 10 {
			next.asked("service=shop/web&run=never", 404, "")
		}
		if n := len(p.Actions()); n > 1 {
			t.Errorf("read %d times", n)
		}
	})
}

// A ConfigMap that cannot be written costs no run. It is said once in the log, in the status and in the metric, and is
// written once it can be.
func TestAConfigMapThatCannotBeWrittenCostsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast()
		p.refused.Store(true)
		f := p.guard(t, nil)
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Pass)
		f.disrupt("shop/web", 3)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		const why = "write the ConfigMap lapse-guard-history: you may not patch it"
		if r := f.report(); r.Unkept != why || f.exports("lapse_store_errors_total 0") {
			t.Errorf("the status says %q", r.Unkept)
		}
		if n := strings.Count(f.log.String(), "runs are not stored"); n != 1 {
			t.Errorf("said %d times: %s", n, f.log)
		}
		p.refused.Store(false)
		time.Sleep(2 * time.Minute) // of virtual time
		synctest.Wait()
		if r := f.report(); r.Unkept != "" || p.lines(t) != 2 {
			t.Errorf("%q, and it has %d lines", r.Unkept, p.lines(t))
		}
		p.refused.Store(true)
		f.disrupt("shop/web", 0)()
		p.refused.Store(false)
		if f.stop(); p.lines(t) != 3 {
			t.Errorf("at the end it has %d lines", p.lines(t))
		}
	})
}

// A guard that cannot read the ConfigMap tells what it knows, and that it may not be all.
func TestAHistoryThatIsNotWholeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast()
		f := p.guard(t, nil)
		f.guards("shop/web")
		f.disrupt("shop/web", 3)()
		f.asked("service=shop/web&hash=5f9dd68475", 200, gate.Fail)
		client := &http.Client{Transport: answers{f.private()}}
		if h, err := History(t.Context(), client, "127.0.0.1"); err != nil || len(h.Lines) != 1 || len(h.Unread) != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		p.unread.Store(true)
		h, err := History(t.Context(), client, "127.0.0.1")
		if err != nil || len(h.Lines) != 1 || len(h.Unread) != 1 || !strings.Contains(h.Unread[0].Error(), "may lack lines: ") {
			t.Errorf("%+v, %v", h, err)
		}
		if err := Fetch(t.Context(), client, "127.0.0.1", t.TempDir(), func(string) {}); err == nil || !strings.Contains(err.Error(), "may lack lines: ") {
			t.Errorf("fetched: %v", err)
		}
	})
}

// answers hands requests to a handler, without a network.
type answers struct{ http.Handler }

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result(), nil
}

// The lines of runs that a guard does not have any more are added to the history of the directory, once.
func TestLinesOfRunsThatAreGoneAreFetchedOnce(t *testing.T) {
	var all []history.Line
	for _, run := range []string{"here", "gone"} {
		all = append(all, history.Line{History: 1, Run: run, T0: time.Unix(1764151200, 0).UTC(), Service: "shop/web", Verdict: model.Pass})
	}
	mux := http.NewServeMux()
	mux.HandleFunc(runsPath, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("[]")) })
	mux.HandleFunc(historyPath, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("gone") == "" {
			t.Error("asked for all lines")
		}
		_ = history.Write(w, all...)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "here"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here", saved.FactsFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Fetch(t.Context(), server.Client(), strings.TrimPrefix(server.URL, "http://"), dir, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, saved.HistoryFile))
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"gone"`) {
		t.Errorf("%v: %s", err, text)
	}
}
