package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/guard/flagger"
	"lapse/internal/guard/lead"
	"lapse/internal/run/coordinator"
)

const token = "an-example-of-a-token"

// newTokenFile returns the name of a file with the token.
func newTokenFile(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// post sends a request to the gate's address, and returns the answer.
func (f *fake) post(path, authorization, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	f.public().ServeHTTP(w, r)
	return w
}

// Who has the token raises the full rate of a Service, as a sign does.
func TestAServiceIsArmedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = newTokenFile(t, token+"\n")
		f.refuse("shop/down", os.ErrDeadlineExceeded)
		f.guards("shop/web", "shop/down")
		for _, test := range []struct {
			query, authorization string
			status               int
			want                 string
		}{
			{"service=shop/web", "Bearer " + token, 200, `{"service":"shop/web","until":"2000-01-01T00:15:02Z"}`},
			{"service=shop/web&for=1h", "bearer " + token, 200, `{"service":"shop/web","until":"2000-01-01T01:00:02Z"}`},
			{"service=shop/web", "Basic Zmxhbm5lcjphbi1leGFtcGxlLW9mLWEtdG9rZW4=", 200, "until"},
			{"service=shop/web", "", 401, "send the guard's token"},
			{"service=shop/web", "Bearer ", 401, "what was sent is not the guard's token"},
			{"service=shop/web", "Bearer " + token + "s", 401, "what was sent is not the guard's token"},
			{"service=shop/web", "Basic " + token, 401, "what was sent is not the guard's token"},
			{"service=shop/api", "Bearer " + token, 404, `shop/api: it is not guarded: annotate it`},
			{"service=shop/down", "Bearer " + token, 409, "shop/down is not measured: "},
			{"service=web", "Bearer " + token, 400, "NAMESPACE/NAME"},
			{"service=shop/web&for=2h", "Bearer " + token, 400, "from 1s to 1h0m0s"},
			{"service=shop/web&four=2h", "Bearer " + token, 400, "known are service"},
			{"service=shop/web&for=1h;", "Bearer " + token, 400, "invalid semicolon"},
		} {
			w := f.post(armPath+"?"+test.query, test.authorization, "")
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
				t.Errorf("%s, %q: %d %s, want %d %s", test.query, test.authorization, w.Code, w.Body, test.status, test.want)
			}
			if asks := w.Header().Get("WWW-Authenticate") != ""; asks != (test.status == http.StatusUnauthorized) {
				t.Errorf("%s, %q: WWW-Authenticate is %q", test.query, test.authorization, w.Header().Values("WWW-Authenticate"))
			}
		}
		if s := f.status("shop/web"); s.State != coordinator.Raised || s.Sign != "armed by hand: shop/web for 15m0s" {
			t.Errorf("%+v", s)
		}
		f.breaks <- errors.New("its endpoints are gone")
		synctest.Wait()
		if w := f.post(armPath+"?service=shop/web", "Bearer "+token, ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "not measured: its endpoints are gone") {
			t.Errorf("of what is not measured any more: %d %s", w.Code, w.Body)
		}
		if n := strings.Count(f.log.String(), "a request was refused"); n != 1 {
			t.Errorf("refusals are logged %d times:\n%s", n, f.log)
		}
	})
}

// While the token cannot be read, strangers cannot fill the log: it says why once a minute.
func TestAnUnreadableTokenIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = filepath.Join(t.TempDir(), "none")
		for range 10 {
			w := f.post(armPath, "", "")
			if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), f.TokenFile) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if n := strings.Count(f.log.String(), f.TokenFile+": no such file"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, f.log)
		}
	})
}

// A guard arms what another one was asked to arm, once for each request and no longer than that, and tells the other of
// what it was asked itself.
func TestWhatAnotherGuardIsAskedIsArmedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &elected{}
		f := newFakeOf(t, t.TempDir(), leader)
		f.TokenFile = newTokenFile(t, token)
		f.refuse("shop/late", errors.New("it has no ready endpoint"))
		f.guards("shop/web", "shop/late", "shop/api")
		ask := func(service, why string, length time.Duration) {
			leader.mu.Lock()
			defer leader.mu.Unlock()
			leader.passed = append(leader.passed, lead.Request{Service: service, Why: why, Until: f.now().UTC().Add(length)})
		}
		is := func(service string, state coordinator.Standby, sign string) {
			t.Helper()
			time.Sleep(2 * armTooEvery) // of virtual time
			synctest.Wait()
			if s := f.status(service); s.State != state || s.Sign != sign {
				t.Errorf("%s is %s, %q; want %s, %q", service, s.State, s.Sign, state, sign)
			}
		}
		ask("shop/web", "by hand", 10*time.Minute)
		ask("shop/late", "by hand", 5*time.Minute)
		ask("shop/none", "by hand", 10*time.Minute)
		ask("shop/api", "it is over", -time.Second)
		ask("shop/api", strings.Repeat("x", mostWhy+1), time.Minute)
		is("shop/web", coordinator.Raised, "by hand for 9m59.5s")
		is("shop/api", coordinator.Idle, "")
		f.disrupt("shop/web", 0)()
		f.on["shop/web"].Stands(coordinator.Idle, "")
		is("shop/web", coordinator.Idle, "") // not once more
		ask("shop/web", "by hand", 10*time.Hour)
		is("shop/web", coordinator.Raised, "by hand for 1h0m0s")
		f.refuse("shop/late", nil)
		time.Sleep(retryAfter + 2*time.Second)
		if synctest.Wait(); f.status("shop/late").State != coordinator.Raised {
			t.Errorf("of what is measured later: %+v", f.status("shop/late"))
		}
		f.post(armPath+"?service=shop/api&for=1m", "Bearer "+token, "")
		until := f.now().UTC().Add(time.Minute).Truncate(time.Second)
		if want := (lead.Request{Service: "shop/api", Until: until, Why: "armed by hand: shop/api"}); len(leader.passes) != 1 || leader.passes[0] != want {
			t.Errorf("it tells of %+v, want %+v", leader.passes, want)
		}
		leader.unheard = errors.New("this guard does not lead")
		w := f.post(armPath+"?service=shop/api&for=1m", "Bearer "+token, "")
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "try again: this guard does not lead") {
			t.Errorf("where no other guard knows of it: %d %s", w.Code, w.Body)
		}
	})
}

// Without a token nobody may arm a Service, whatever they send.
func TestWithoutATokenNothingIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.guards("shop/web")
		for _, file := range []string{"", filepath.Join(t.TempDir(), "none"), newTokenFile(t, "\n"), newTokenFile(t, "short"), newTokenFile(t, token+"\n"+token), "/dev/zero"} {
			f.TokenFile = file
			for _, authorization := range []string{"", "Bearer ", "Bearer short"} {
				if w := f.post(armPath+"?service=shop/web", authorization, ""); w.Code != http.StatusForbidden {
					t.Errorf("with the file %q, %q: %d %s", file, authorization, w.Code, w.Body)
				}
			}
		}
		f.TokenFile = ""
		if w := f.post(armPath, "", ""); !strings.Contains(w.Body.String(), "lapse gen guard --token-secret NAME") {
			t.Errorf("the answer is %s", w.Body)
		}
		if s := f.status("shop/web"); s.State != coordinator.Idle {
			t.Errorf("%+v", s)
		}
		f.post(flagger.Path+"event%0aall%20is%20well", "", "")
		var said strings.Builder
		if err := Print(&said, f.report()); err != nil || !strings.HasPrefix(said.String(), `a request to "/v1/hook/flagger/event\nall is well" was refused at 2000-01-01T00:00:02Z: no token is set: `) {
			t.Errorf("the status says %s %v", &said, err)
		}
		time.Sleep(time.Hour) // of virtual time
		if f.report().Refused != nil {
			t.Error("it says so an hour later")
		}
	})
}

// What a stranger sends is cut in the answer, the log and the status: a method and a path may have kilobytes.
func TestWhatAStrangerSendsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = newTokenFile(t, token)
		f.guards("shop/web")
		long := strings.Repeat("X", 8<<10)
		f.log.Reset()
		w := httptest.NewRecorder()
		f.public().ServeHTTP(w, httptest.NewRequest(long, flagger.Path+long, nil))
		for name, text := range map[string]string{"answer": w.Body.String(), "log": f.log.String(), "status": fmt.Sprint(f.report().Refused)} {
			if !strings.Contains(text, "it takes POST, not XXX") || len(text) > 1000 {
				t.Errorf("the %s has %d bytes: %.200s", name, len(text), text)
			}
		}
	})
}

// The client of the command line says what the guard says.
func TestTheClientArms(t *testing.T) {
	var status int
	var body, sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	ask := func(s int, b string) (Armed, error) {
		status, body = s, b
		return Arm(t.Context(), http.DefaultClient, server.URL+"/", token, "shop/web", DefaultArmed)
	}
	armed, err := ask(200, `{"service":"shop/web","until":"2026-11-26T10:15:00Z"}`)
	if err != nil || armed.Until.Minute() != 15 || sent != "POST /v1/arm?for=15m0s&service=shop%2Fweb Bearer "+token {
		t.Errorf("%+v %v, sent %s", armed, err, sent)
	}
	if _, err := ask(409, `{"error":"shop/web is not measured"}`); err == nil || err.Error() != "shop/web is not measured" {
		t.Error(err)
	}
	if _, err := ask(404, "404 page not found"); err == nil || !strings.Contains(err.Error(), "is no guard: it answers 404") {
		t.Error(err)
	}
}

// Flagger has no field for a header. What it sends of a password in a webhook's URL is the token.
func TestFlaggerSendsTheTokenInItsURL(t *testing.T) {
	g := &guard{Config: Config{TokenFile: newTokenFile(t, token), Log: slog.New(slog.DiscardHandler)}, now: time.Now}
	server := httptest.NewServer(g.withToken(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for at, want := range map[string]int{"http://flagger:" + token + "@" + host: 200, "http://flagger:other@" + host: 401, server.URL: 401} {
		hook, err := url.Parse(at) // as callWebhook in Flagger's pkg/controller/webhook.go
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodPost, hook.String(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("%s: %s", at, reply.Status)
		}
	}
}

// A rollout of Flagger through a whole guard: an event arms, what fails since then holds it back, and what passed
// yesterday does not let it through.
func TestFlaggerRollsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = newTokenFile(t, token)
		f.guards("shop/web")
		f.disrupt("shop/web", 0)()
		time.Sleep(24 * time.Hour) // of virtual time
		calls := func(hook, metadata string, want int, says string) {
			t.Helper()
			body := `{"name":"web","namespace":"shop","phase":"Progressing","checksum":"85d557f47b","metadata":{` + metadata + `}}`
			w := f.post(flagger.Path+hook, "Bearer "+token, body)
			if w.Code != want || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %d %s, want %d %s", hook, w.Code, w.Body, want, says)
			}
		}
		begins := func() {
			calls("event", `"eventMessage":"New revision detected! Scaling up web.shop","eventType":"Normal"`, 200, "")
		}
		calls("confirm-rollout", "", 200, `"pass"`)
		begins()
		if s := f.status("shop/web"); s.State != coordinator.Raised || s.Sign != "Flagger rolls out shop/web for 15m0s" {
			t.Errorf("%+v", s)
		}
		calls("confirm-promotion", "", 409, `"pending"`)
		calls("confirm-promotion", `"none":"pass"`, 200, "no disruption of shop/web since 2000-01-02")
		end := f.disrupt("shop/web", 0)
		calls("rollout", "", 200, `"pending"`)
		calls("confirm-promotion", `"none":"pass"`, 409, `"pending"`)
		end()
		calls("rollout", "", 200, `"pass"`)
		calls("confirm-promotion", "", 200, `"pass"`)
		calls("rollback", "", 409, `"pass"`)
		f.disrupt("shop/web", 3)()
		calls("rollout", "", 409, "3 of 900 failed")
		calls("confirm-promotion", "", 409, `"fail"`)
		calls("rollback", "", 200, "3 of 900 failed")
		time.Sleep(2 * time.Minute)
		begins()
		calls("rollback", "", 409, `"pending"`)
		if w := f.post(flagger.Path+"rollback", "", "{}"); w.Code != http.StatusUnauthorized {
			t.Errorf("without the token: %d %s", w.Code, w.Body)
		}
		if w := f.post(flagger.Path+"pre-rollout", "Bearer "+token, `{"name":"web","namespace":"shop"}`); w.Code != http.StatusNotFound {
			t.Errorf("an unknown hook: %d %s", w.Code, w.Body)
		}
	})
}

// What is not understood of a request to arm, or of a hook, is in the status and the log as well: who sends it may keep
// no answers.
func TestWhatIsNotUnderstoodIsInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, t.TempDir())
		f.TokenFile = newTokenFile(t, token)
		f.guards("shop/web")
		for _, test := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", armPath + "?service=shop/web", "", 405, "it takes POST, not GET"},
			{"PUT", flagger.Path + "event", "{}", 405, "it takes POST, not PUT"},
			{"POST", armPath + "?service=web", "", 400, "NAMESPACE/NAME"},
			{"POST", flagger.Path + "event", `{"name":`, 400, "this is not what Flagger sends"},
			{"POST", flagger.Path + "event", strings.Repeat(" ", 1<<20), 400, "body too large"},
			{"POST", flagger.Path + "event", `{"name":"web","namespace":"shop","phase":"Resting"}`, 400, `unknown phase "Resting"`},
			{"POST", flagger.Path + "rest", `{"name":"web","namespace":"shop"}`, 404, "known are event"},
			{"POST", flagger.Path + "rollout", `{"name":"api","namespace":"shop"}`, 404, "shop/api is not guarded here"},
		} {
			f.log.Reset()
			r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			f.public().ServeHTTP(w, r)
			var said strings.Builder
			if err := Print(&said, f.report()); err != nil {
				t.Error(err)
			}
			if w.Code != test.status || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), strings.ReplaceAll(test.want, `"`, `\"`)) ||
				!strings.Contains(said.String(), test.want) || !strings.Contains(f.log.String(), strings.ReplaceAll(test.want, `"`, `\"`)) {
				t.Errorf("%s %s: %d %s\nthe status: %s\nthe log: %s", test.method, test.path, w.Code, w.Body, &said, f.log)
			}
			time.Sleep(time.Minute) // of virtual time: it logs one a minute
		}
	})
}
