package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// What a rule predicts of a hundred Pods, and what came of all of them, is one line. With -v each has its own.
func TestPredictionsAlikeShareALine(t *testing.T) {
	card := &model.Scorecard{Predicted: 101, Confirmed: 1, NotTested: 100}
	for i := range 100 {
		card.Predictions = append(card.Predictions, model.ScoredPrediction{
			Service: "shop/web", Outcome: model.NotTested, Why: "no drain",
			Prediction: timeline.Prediction{Rule: "LP16", Name: "drain-refuses", Evidence: []string{fmt.Sprintf("Pod/web-%d: no controller", i)}},
		})
	}
	card.Predictions = append(card.Predictions, model.ScoredPrediction{
		Service: "shop/web", Outcome: model.Confirmed, Why: "incident 1", Prediction: timeline.Prediction{Rule: "LP16", Name: "drain-refuses", Evidence: []string{"Pod/web-x: no controller"}},
	})
	print := func(write func(io.Writer, *model.Timeline, Options) error) string {
		var out bytes.Buffer
		if err := write(&out, &model.Timeline{Scorecard: card}, Options{Verbose: true}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := print(JUnit); strings.Count(got, "drain-refuses") != 2 || !strings.Contains(got, "LP16 drain-refuses (100 times)") || !strings.Contains(got, "Pod/web-x") {
		t.Errorf("%s", got)
	}
	if got := print(Markdown); strings.Contains(got, "times)") || !strings.Contains(got, "Pod/web-0") || !strings.Contains(got, "Pod/web-1") {
		t.Errorf("with -v:\n%s", got)
	}
}
