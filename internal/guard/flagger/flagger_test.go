package flagger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lapse/internal/guard/gate"
)

// A player plays Flagger to hooks whose gate says what a test sets.
type player struct {
	*Hooks
	t      *testing.T
	now    time.Time
	says   gate.State // ""; the Service is not guarded
	asked  gate.Query
	armed  []string
	notArm error
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, now: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), says: gate.Pending}
	p.Hooks = &Hooks{
		Answer: func(q gate.Query) (gate.Answer, string) {
			if p.asked = q; p.says == "" {
				return gate.Answer{}, q.Service + " is not guarded"
			}
			return gate.Answer{State: p.says, Reason: "a reason", Run: "lapse-1"}, ""
		},
		Arm: func(_ context.Context, service, why string) error {
			p.armed = append(p.armed, service+": "+why)
			return p.notArm
		},
		Now: func() time.Time { return p.now },
	}
	return p
}

// call sends what Flagger's client writes (CallWebhook in pkg/controller/webhook.go), and returns the status and body.
func (p *player) call(hook, phase, checksum, metadata string) (int, string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"name":"podinfo","namespace":"test","phase":"%s","checksum":"%s"%s}`, phase, checksum, metadata)
	r := httptest.NewRequest(http.MethodPost, Path+hook, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if !json.Valid(w.Body.Bytes()) {
		p.t.Errorf("%s is answered with %q", hook, w.Body)
	}
	if w.Code >= 500 || w.Code == http.StatusTooManyRequests || w.Code > 200 && w.Code < 300 {
		p.t.Errorf("%s is answered with %d: Flagger loses its body, or takes it for another answer", hook, w.Code)
	}
	return w.Code, w.Body.String()
}

// event sends an event (CallEventWebhook).
func (p *player) event(phase, checksum, message string) (int, string) {
	p.t.Helper()
	return p.call("event", phase, checksum, fmt.Sprintf(`,"metadata":{"eventMessage":"%s","eventType":"Normal","timestamp":"%d"}`, message, p.now.UnixMilli()))
}

func (p *player) is(hook, phase, checksum, metadata string, want int) {
	p.t.Helper()
	if code, body := p.call(hook, phase, checksum, metadata); code != want {
		p.t.Errorf("%s in phase %s, and the gate says %s: %d %s, want %d", hook, phase, p.says, code, body, want)
	}
}

const scaling = "New revision detected! Scaling up podinfo.test"

// rollout says no only to a failure, confirm-* yes only to a pass, and rollback yes only to a failure.
func TestHooksAnswerAsFlaggerUnderstands(t *testing.T) {
	for _, test := range []struct {
		says                                gate.State
		rollout, promotion, rollback, begin int
	}{
		{gate.Pass, 200, 200, 409, 200},
		{gate.Fail, 409, 409, 200, 409},
		{gate.Inconclusive, 200, 409, 409, 409},
		{gate.Pending, 200, 409, 409, 409},
		{"", 404, 404, 404, 404},
	} {
		p := newPlayer(t)
		p.event("Progressing", "before", scaling)
		p.says = test.says
		p.is("rollout", "Progressing", "c1", "", test.rollout)
		p.is("confirm-promotion", "Progressing", "c1", "", test.promotion)
		p.is("confirm-traffic-increase", "Progressing", "c1", "", test.promotion)
		p.is("rollback", "Progressing", "c1", "", test.rollback)
		p.is("confirm-rollout", "Succeeded", "c1", "", test.begin)
	}
}

// Each question is about all since the beginning of the rollout, of the Service that the webhook names.
func TestAHookAsksSinceTheRolloutBegan(t *testing.T) {
	p := newPlayer(t)
	asks := func(since time.Time, service string, none bool) {
		t.Helper()
		if want := (gate.Query{Service: service, Since: since, NonePasses: none}); p.asked != want {
			t.Errorf("the gate is asked %+v, not %+v", p.asked, want)
		}
	}
	p.says = gate.Pass
	p.is("confirm-rollout", "Initialized", "before", "", 200)
	asks(p.now, "test/podinfo", true)
	approved := p.now
	p.now = p.now.Add(time.Minute)
	p.is("rollout", "Progressing", "c1", "", 200)
	asks(approved, "test/podinfo", false)
	p.is("rollback", "Progressing", "c1", `,"metadata":{"service":"podinfo-apex"}`, 409)
	asks(approved, "test/podinfo-apex", false)
	p.is("confirm-promotion", "WaitingPromotion", "c1", `,"metadata":{"none":"pass","owner":"me"}`, 200)
	asks(approved, "test/podinfo", true)

	p.event("Progressing", "c1", "New revision detected! Restarting analysis for podinfo.test")
	again := p.now
	p.now = p.now.Add(time.Minute)
	p.event("Progressing", "c2", "Advance podinfo.test canary weight 20")
	p.is("confirm-promotion", "Progressing", "c2", "", 200)
	asks(again, "test/podinfo", false)
}

// A rollout whose beginning nobody saw does not pass. What fails from then on is a failure.
func TestARolloutWhoseBeginningWasNotSeenDoesNotPass(t *testing.T) {
	for name, before := range map[string]func(*player){
		"the guard was restarted":  func(p *player) { p.event("Progressing", "c1", "Advance podinfo.test canary weight 20") },
		"no hook of its beginning": func(*player) {},
		"an event was lost": func(p *player) {
			p.event("Progressing", "before", scaling)
			p.call("rollout", "Progressing", "c0", "")
		},
		"the one before has ended": func(p *player) {
			p.event("Progressing", "before", scaling)
			p.event("Succeeded", "c1", "Promotion completed! Scaling down podinfo.test")
		},
	} {
		p := newPlayer(t)
		before(p)
		p.now = p.now.Add(time.Hour)
		p.says = gate.Pass
		p.is("rollout", "Progressing", "c1", "", 200)
		if p.asked.Since != p.now {
			t.Errorf("%s: asked since %v", name, p.asked.Since)
		}
		code, body := p.call("confirm-promotion", "Progressing", "c1", "")
		if code != 409 || !strings.Contains(body, "when this rollout began is not known") {
			t.Errorf("%s: %d %s", name, code, body)
		}
		p.says = gate.Fail
		p.is("rollout", "Progressing", "c1", "", 409)
		p.is("rollback", "Progressing", "c1", "", 200)
	}
}

// A Service is armed while Flagger changes something, or is about to.
func TestEventsArm(t *testing.T) {
	p := newPlayer(t)
	for _, test := range []struct {
		phase, message string
		armed          int
	}{
		{"Initialized", "Initialization done! podinfo.test", 0},
		{"Progressing", scaling, 1},
		{"Progressing", "Advance podinfo.test canary weight 10", 1},
		{"WaitingPromotion", "Halt podinfo.test advancement waiting for promotion approval lapse", 0},
		{"Promoting", "Routing all traffic to primary", 1},
		{"Succeeded", "Promotion completed! Scaling down podinfo.test", 0},
		{"Failed", "Canary failed! Scaling down podinfo.test", 0},
	} {
		p.armed = nil
		if code, body := p.event(test.phase, "c1", test.message); code != 200 || len(p.armed) != test.armed {
			t.Errorf("%s, %s: %d %s, %q", test.phase, test.message, code, body, p.armed)
		}
	}
	p.is("confirm-rollout", "Succeeded", "c1", "", 409)
	if want := "[test/podinfo: Flagger rolls out test/podinfo]"; fmt.Sprint(p.armed) != want {
		t.Errorf("%q, not %s", p.armed, want)
	}
	p.notArm = errors.New("test/podinfo is not measured: it has no ready endpoint")
	if code, body := p.event("Progressing", "c1", scaling); code != 409 || !strings.Contains(body, "no ready endpoint") {
		t.Errorf("%d %s", code, body)
	}
	p.says = gate.Pass
	p.is("confirm-rollout", "Succeeded", "c1", "", 409)
}

// What Flagger does not send is refused, and so is what would change an answer if it were misspelled.
func TestBadHooksAreRefused(t *testing.T) {
	p := newPlayer(t)
	p.is("rollout", "Progressing", "c1", `,"metadata":{"service":"other/web"}`, 400)
	p.is("rollout", "Progressing", "c1", `,"metadata":{"none":"fail"}`, 400)
	p.is("rollout", "Progressing", "c1", `,`, 400)
	p.is("pre-rollout", "Progressing", "c1", "", 404)
	p.is("rollout", "Progressing", strings.Repeat("c", 70<<10), "", 400)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"rollout", strings.NewReader(`{"name":"podinfo"}`)))
	if w.Code != 400 {
		t.Errorf("without a namespace: %d %s", w.Code, w.Body)
	}
}

// Whoever has the token cannot fill the memory with Canaries.
func TestOldRolloutsAreForgotten(t *testing.T) {
	var all rollouts
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	for i := range mostRollouts + 10 {
		all.begin(fmt.Sprint("test/", i), rollout{since: at.Add(time.Duration(i) * time.Second), whole: true})
	}
	if _, known := all["test/9"]; known || len(all) != mostRollouts {
		t.Errorf("%d are known", len(all))
	}
	if r := all.of("test/10", "c1", at); !r.whole {
		t.Error("a newer one is forgotten")
	}
}
