package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/preflight"
	"lapse/internal/preflight/cluster"
	"lapse/internal/preflight/rules"
	"lapse/internal/run/mask"
	"lapse/timeline"
)

// predictWithin is how long preflight waits for an answer of the API server. It sends one request, and then all others
// at once: a run waits for at most twice predictWithin.
const predictWithin = 2 * time.Second

// predict runs preflight for each Service that is measured or watched, before the run's clock starts. It never fails a
// run: a rule without its objects is not judged, and the event says so.
//
// The process that measures asks, not the workstation: a Job that was applied by hand has none, and preflight shall
// judge the cluster as it is when the baseline begins. The Job's Role lacks only the ConfigMap kube-proxy (LP19). It
// asks before the baseline, because decoding a namespace's objects takes CPU from the requests.
func (r *Found) predict(ctx context.Context) (events []timeline.Event) {
	if r.opts.NoPreflight {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*predictWithin)
	defer cancel()
	for _, s := range r.Distinct() {
		e := timeline.Event{
			Kind: timeline.Predicted, To: timeline.PreflightDone, Writer: "lapse",
			Object: timeline.Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name},
		}
		state, err := cluster.Read(ctx, r.Client, s.Namespace, s.Name, cluster.Asking{Timeout: predictWithin})
		if err != nil {
			e.To, e.Detail = timeline.PreflightNotDone, mask.Text(err.Error())
			if ctx.Err() != nil {
				e.Detail = fmt.Sprintf("the API server did not answer within %s", quantity.Span(2*predictWithin))
			}
			events = append(events, e)
			continue
		}
		if state.Node = r.opts.Drains; state.CheckNode() != nil {
			state.Node = "" // the cluster has no such node: the command will fail
		}
		result := preflight.Judge(state)
		result.Accept(preflight.Baseline{Accepted: r.opts.Accepted})
		e.Preflight = predictions(state.Node, &result)
		e.Detail = predictedWords(e.Preflight)
		events = append(events, e)
	}
	return events
}

// predictions returns the findings of preflight as facts of a run. It masks likely credentials: the command of a hook
// may contain some.
func predictions(node string, r *preflight.Result) *timeline.Preflight {
	p := &timeline.Preflight{Node: node, Rules: []timeline.AskedRule{}, Predictions: []timeline.Prediction{}}
	for _, rule := range rules.All() {
		asked := timeline.AskedRule{ID: rule.ID, Name: rule.Name, Predicts: rule.Predicts}
		if i := slices.IndexFunc(r.Unjudged, func(u rules.Unjudged) bool { return u.Rule == rule.ID }); i >= 0 {
			asked.Unjudged = r.Unjudged[i].Why
		}
		p.Rules = append(p.Rules, asked)
	}
	for _, f := range slices.Concat(r.Findings, r.Accepted) {
		is := timeline.Prediction{
			Rule: f.Rule, Name: f.Name, Severity: string(f.Severity),
			Text: mask.Text(f.Prediction), Evidence: []string{}, Fix: f.Fix,
			Causes: f.ConfirmedBy, When: f.When, Node: f.Node, Accepted: f.Accepted,
		}
		for _, e := range f.Evidence {
			is.Evidence = append(is.Evidence, mask.Text(e.String()))
		}
		p.Predictions = append(p.Predictions, is)
	}
	return p
}

// predictedWords returns all predictions in one line.
func predictedWords(p *timeline.Preflight) string {
	var found, unable []string
	for i := range p.Predictions {
		is := &p.Predictions[i]
		alike := func(o timeline.Prediction) bool { return o.Rule == is.Rule && o.Severity == is.Severity }
		if slices.ContainsFunc(p.Predictions[:i], alike) {
			continue
		}
		words := fmt.Sprintf("%s %s (%s", is.Rule, is.Name, is.Severity)
		n := 0
		for _, o := range p.Predictions[i:] {
			if alike(o) {
				n++
			}
		}
		if n > 1 {
			words += fmt.Sprintf(", %d times", n)
		}
		found = append(found, words+")")
	}
	for _, rule := range p.Rules {
		if rule.Unjudged != "" {
			unable = append(unable, rule.ID)
		}
	}
	text := "nothing is predicted"
	if len(found) > 0 {
		text = strings.Join(found, ", ")
	}
	if len(unable) > 0 {
		text += "; could not judge: " + strings.Join(unable, ", ")
	}
	return text
}

// PredictedLine returns the terminal's line for an event of preflight.
func PredictedLine(e timeline.Event) string {
	service := "svc/" + e.Object.Namespace + "/" + e.Object.Name
	if e.Preflight == nil {
		return "preflight of " + service + " was not possible: " + e.Detail
	}
	return "preflight of " + service + ": " + e.Detail
}
