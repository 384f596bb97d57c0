// Package argo tests what Lapse's docs have for Argo Rollouts with Argo Rollouts itself.
package argo

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"

	"github.com/argoproj/argo-rollouts/metricproviders/webmetric"
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/sirupsen/logrus"
	"sigs.k8s.io/yaml"

	before "example.com/argo191/metricproviders/webmetric"
)

// read decodes a block of YAML of the page, which must have no field that Argo Rollouts does not know.
func read(t *testing.T, block int, into any) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/ask-the-gate.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1)
	if err := yaml.UnmarshalStrict(all[block][1], into); err != nil {
		t.Fatalf("%v in\n%s", err, all[block][1])
	}
}

// Each answer of the gate is what the page says, for this version of Argo Rollouts and for v1.9.1. What is no JSON is a
// success to both: the gate has no such answer.
func TestArgoRolloutsUnderstandsEachAnswer(t *testing.T) {
	var template v1alpha1.AnalysisTemplate
	read(t, 0, &template)
	metric := template.Spec.Metrics[0]
	limit := metric.ConsecutiveErrorLimit.IntValue()
	// 15 min for the disruption to come, 30 for its end, and a minute for it to settle: a question each 10 s
	if limit < 46*60/10 || metric.FailureLimit != nil || metric.InconclusiveLimit != nil || metric.Interval != "" {
		t.Errorf("limits %+v", metric)
	}
	for _, c := range []struct {
		status int
		body   string
		want   v1alpha1.AnalysisPhase
	}{
		{200, `{"state":"pass","reason":"0 of 900 failed","run":"r1","since":"2026-11-26T10:01:00Z"}`, v1alpha1.AnalysisPhaseSuccessful},
		{200, `{"state":"fail","reason":"3 of 900 failed","run":"r1","since":"2026-11-26T10:01:00Z"}`, v1alpha1.AnalysisPhaseFailed},
		{200, `{"state":"inconclusive","reason":"it is not measured"}`, v1alpha1.AnalysisPhaseInconclusive},
		{425, `{"state":"pending","reason":"no disruption was seen yet"}`, v1alpha1.AnalysisPhaseError},
		{404, `{"error":"shop/web is not guarded"}`, v1alpha1.AnalysisPhaseError},
		{200, `<html>welcome`, v1alpha1.AnalysisPhaseSuccessful},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		metric.Provider.Web.URL = server.URL
		parser, err := webmetric.NewWebMetricJsonParser(metric)
		if err != nil {
			t.Fatal(err)
		}
		log := *logrus.NewEntry(logrus.StandardLogger())
		for version, got := range map[string]v1alpha1.Measurement{
			"v1.10.1": webmetric.NewWebMetricProvider(log, http.DefaultClient, parser).Run(nil, metric),
			"v1.9.1":  before.NewWebMetricProvider(log, http.DefaultClient, parser).Run(nil, metric),
		} {
			if got.Phase != c.want {
				t.Errorf("%s: %d %s is %s (%s), want %s", version, c.status, c.body, got.Phase, got.Message, c.want)
			}
		}
		server.Close()
	}
}

// The step of the page gives the template its argument.
func TestTheStepNamesTheTemplate(t *testing.T) {
	var template v1alpha1.AnalysisTemplate
	read(t, 0, &template)
	var rollout struct{ Strategy v1alpha1.RolloutStrategy }
	read(t, 1, &rollout)
	step := rollout.Strategy.Canary.Steps[1].Analysis
	if step.Templates[0].TemplateName != template.Name || step.Args[0].Name != template.Spec.Args[0].Name ||
		*step.Args[0].ValueFrom.PodTemplateHashValue != v1alpha1.Latest {
		t.Errorf("%+v of %+v", step, template)
	}
}
