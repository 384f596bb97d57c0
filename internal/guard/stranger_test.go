package guard

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"lapse/internal/guard/flagger"
	"lapse/internal/guard/gate"
	"lapse/internal/run/coordinator"
)

// Who has no token gets verdicts and metrics at the gate's address, and changes nothing.
func TestAStrangerGetsVerdictsAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = newTokenFile(t, token)
		f.guards("shop/web")
		f.disrupt("shop/web", 3)()
		run := f.asked("service=shop/web&node=node1", 200, gate.Fail).Run
		answers := []string{gate.Path, "/metrics", "/readyz"}
		for _, path := range []string{
			gate.Path, "/metrics", "/readyz", "/", statusPath, runsPath, runsPath + "/" + run + "/facts.lapse", "/" + run + "/", "/debug/pprof/",
			armPath, flagger.Path + "event", "/v1/", "/v1/gate/../runs",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
				w := httptest.NewRecorder()
				f.public().ServeHTTP(w, httptest.NewRequest(method, path+"?service=shop/web&since=2000-01-01T00:00:00Z", strings.NewReader("{}")))
				served := slices.Contains(answers, path) && method == http.MethodGet
				if served != (w.Code < 400) && w.Code != http.StatusTemporaryRedirect && w.Code != http.StatusMovedPermanently {
					t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
				}
			}
		}
		w := httptest.NewRecorder()
		rebound := httptest.NewRequest(http.MethodGet, "http://evil.example"+statusPath, nil)
		if f.private().ServeHTTP(w, rebound); w.Code != http.StatusForbidden {
			t.Errorf("a page of another host, whose address is made 127.0.0.1, gets the status: %d", w.Code)
		}
		if s := f.status("shop/web"); s.State != coordinator.Idle || s.Runs != 1 {
			t.Errorf("%+v", s)
		}
		host, _, err := net.SplitHostPort(DefaultPrivate)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			t.Errorf("the status and the page are at %s", DefaultPrivate)
		}
	})
}
