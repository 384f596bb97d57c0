package resolve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lapse/internal/preflight"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

// What is predicted is recorded as it was judged, but for what looks like credentials: a hook's command may hold some.
func TestPredictionsAreRecordedWithoutSecrets(t *testing.T) {
	p := predictions("node2", &preflight.Result{
		Findings: []preflight.Finding{{Finding: rules.Finding{Rule: "LP08", Severity: rules.MayLose, Prediction: "if the image has no drain, --token=s3cret is of no use", ConfirmedBy: []string{"prestop-failed"}, When: timeline.PodEnds,
			Evidence: []service.Evidence{{Object: "Pod/web-1", Field: "spec.containers[server].lifecycle.preStop.exec.command", Value: "drain --token=s3cret"}}}}},
		Accepted: []preflight.Finding{{Finding: rules.Finding{Rule: "LP01", Severity: rules.WillLose, Node: "node2"}, Accepted: "one is enough"}},
		Unjudged: []rules.Unjudged{{Rule: "LP17", Why: "no right to list nodes"}},
	})
	text, err := json.Marshal(p)
	if err != nil || strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "drain --token=***") {
		t.Errorf("%s, %v", text, err)
	}
	if len(p.Predictions) != 2 || p.Predictions[0].When != timeline.PodEnds || p.Predictions[0].Causes[0] != "prestop-failed" || p.Predictions[1].Accepted != "one is enough" || p.Predictions[1].Node != "node2" || p.Node != "node2" {
		t.Errorf("%+v", p.Predictions)
	}
	for _, rule := range p.Rules {
		if want := map[string]string{"LP17": "no right to list nodes"}[rule.ID]; rule.Unjudged != want {
			t.Errorf("%s: %q", rule.ID, rule.Unjudged)
		}
		if rule.ID == "LP07" && (len(rule.Predicts) != 1 || rule.Predicts[0] != "grace-too-short") {
			t.Errorf("%+v", rule)
		}
	}
	if len(p.Rules) != len(rules.All()) {
		t.Errorf("%d rules", len(p.Rules))
	}
	many := &timeline.Preflight{Predictions: slices.Repeat([]timeline.Prediction{{Rule: "LP16", Name: "drain-refuses", Severity: "will-block"}}, 100)}
	many.Predictions = append(many.Predictions, timeline.Prediction{Rule: "LP16", Name: "drain-refuses", Severity: "may-block"})
	if words := predictedWords(many); words != "LP16 drain-refuses (will-block, 100 times), LP16 drain-refuses (may-block)" {
		t.Errorf("%q", words)
	}
	if words := predictedWords(p); words != "LP08  (may-lose), LP01  (will-lose); could not judge: LP17" {
		t.Errorf("%q", words)
	}
}
