// Package flagger tests the guard's hooks, and what Lapse's docs have for Flagger, with Flagger's own client.
package flagger

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/flagger/pkg/apis/flagger/v1beta1"
	"github.com/fluxcd/flagger/pkg/controller"
	"sigs.k8s.io/yaml"

	"lapse/internal/guard/flagger"
	"lapse/internal/guard/gate"
)

// readPage returns the spec of a Canary in the page. It must have no field that Flagger does not know.
func readPage(t *testing.T) (spec v1beta1.CanarySpec) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/ask-the-gate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		if strings.HasPrefix(string(block[1]), "analysis:\n  webhooks:") {
			if err := yaml.UnmarshalStrict(block[1], &spec); err != nil {
				t.Fatalf("%v in\n%s", err, block[1])
			}
			return spec
		}
	}
	t.Fatal("the page has no webhooks")
	return spec
}

// Flagger's client calls the webhooks of the page, and takes each answer for what it is meant to be.
func TestFlaggerUnderstandsEachAnswer(t *testing.T) {
	for _, test := range []struct {
		says                       gate.State
		rollout, promote, rollback bool // Flagger takes the answer for a yes
	}{
		{gate.Pass, true, true, false},
		{gate.Fail, false, false, true},
		{gate.Inconclusive, true, false, false},
		{gate.Pending, true, false, false},
	} {
		armed, passwords := 0, map[string]bool{}
		var asked gate.Query
		hooks := &flagger.Hooks{
			Answer: func(q gate.Query) (gate.Answer, string) {
				asked = q
				return gate.Answer{State: test.says, Reason: "a reason"}, ""
			},
			Arm: func(context.Context, string, string) error { armed++; return nil },
			Now: time.Now,
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			passwords[password] = true
			hooks.ServeHTTP(w, r)
		}))
		var canary v1beta1.Canary
		canary.Name, canary.Namespace = "web", "shop"
		canary.Spec = readPage(t)
		canary.Status.LastAppliedSpec = "before"
		called := 0
		for _, hook := range canary.Spec.Analysis.Webhooks {
			hook.URL = strings.Replace(hook.URL, "lapse-guard.lapse.svc:7117", server.Listener.Addr().String(), 1)
			if hook.Type == v1beta1.EventHook {
				canary.Status.Phase = v1beta1.CanaryPhaseProgressing
				err := controller.CallEventWebhook(&canary, hook, "New revision detected! Scaling up web.shop", "Normal")
				if err != nil || armed != 1 {
					t.Errorf("the event: %v, armed %d times", err, armed)
				}
				canary.Status.LastAppliedSpec = "after"
				continue
			}
			called++
			err := controller.CallWebhook(canary, v1beta1.CanaryPhaseProgressing, hook)
			want := map[v1beta1.HookType]bool{
				v1beta1.RolloutHook: test.rollout, v1beta1.ConfirmPromotionHook: test.promote, v1beta1.RollbackHook: test.rollback,
			}[hook.Type]
			if (err == nil) != want {
				t.Errorf("the gate says %s: to %s Flagger takes it for %t (%v)", test.says, hook.Type, err == nil, err)
			}
			if err != nil && !strings.Contains(err.Error(), string(test.says)) {
				t.Errorf("the gate says %s: Flagger shows %v", test.says, err)
			}
			if asked.Service != "shop/web" || asked.NonePasses != (hook.Type == v1beta1.ConfirmPromotionHook) {
				t.Errorf("%s asks %+v", hook.Type, asked)
			}
		}
		if called != 3 || len(passwords) != 1 || !passwords["TOKEN"] {
			t.Errorf("%d webhooks, with the passwords %v", called, passwords)
		}
		server.Close()
	}
}
