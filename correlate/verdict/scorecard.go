package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// blind is the severity of a finding that predicts nothing: Lapse cannot see something.
const blind = "blind"

// score compares what was predicted before the run with what happened in it. It returns nil without a preflight, and
// while the run goes on.
//
// An incident with the predicted cause, of medium confidence or more, confirms a prediction; a refused eviction, one of
// a refusal. A prediction is refuted only if what it is about happened to the Service, was measured to its end, and no
// incident could hide the cause. Otherwise it was not tested.
func score(tl *model.Timeline) *model.Scorecard {
	if tl.Run.Live {
		return nil
	}
	var card *model.Scorecard
	missed := map[int]bool{} // incidents
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != timeline.Predicted || e.Object.IsZero() {
			continue
		}
		if card == nil {
			card = &model.Scorecard{Predictions: []model.ScoredPrediction{}, Misses: []model.Miss{},
				Unjudged: []model.UnjudgedRule{}}
		}
		s := newScorer(tl, e.Object.Namespace+"/"+e.Object.Name)
		if e.Preflight == nil {
			card.Unjudged = append(card.Unjudged, model.UnjudgedRule{Service: s.service, Why: e.Detail})
			continue
		}
		s.judge(e.Preflight, card)
	}
	if card == nil {
		return nil
	}
	for _, p := range card.Predictions {
		switch p.Outcome {
		case model.Confirmed:
			card.Confirmed++
		case model.Refuted:
			card.Refuted++
		case model.NotTested:
			card.NotTested++
		}
	}
	for _, m := range card.Misses {
		missed[m.Incident] = true
	}
	card.Predicted, card.Missed = len(card.Predictions), len(missed)
	order := []model.PredictionOutcome{model.Confirmed, model.Refuted, model.NotTested}
	slices.SortStableFunc(card.Predictions, func(a, b model.ScoredPrediction) int {
		return cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome))
	})
	return card
}

// judge adds to the card what the run says of one Service's predictions.
func (s *scorer) judge(p *timeline.Preflight, card *model.Scorecard) {
	explained := map[string]bool{} // incident and cause
	for i := range p.Predictions {
		prediction := &p.Predictions[i]
		if prediction.Severity == blind {
			continue
		}
		scored := model.ScoredPrediction{Service: s.service, Prediction: *prediction}
		scored.Outcome, scored.Why, scored.Incidents = s.outcome(prediction)
		for _, found := range s.having(prediction.Causes, sure) {
			explained[found.key()] = true
		}
		card.Predictions = append(card.Predictions, scored)
	}
	for _, rule := range p.Rules {
		if rule.Unjudged != "" {
			card.Unjudged = append(card.Unjudged, model.UnjudgedRule{Service: s.service, Rule: rule.ID,
				Why: rule.Unjudged})
		}
	}
	for _, found := range s.having(allPredicted(p.Rules), sure) {
		if !explained[found.key()] {
			card.Misses = append(card.Misses, model.Miss{Service: s.service, Incident: found.incident.ID,
				Cause: found.name(), Why: whyMissed(p.Rules, found.cause)})
		}
	}
}

// A foundCause is a cause of an incident.
type foundCause struct {
	incident *model.Incident
	cause    *model.Cause
}

func (f foundCause) name() string {
	if f.cause.Reason == "" {
		return f.cause.Rule
	}
	return f.cause.Rule + "/" + f.cause.Reason
}

func (f foundCause) key() string { return fmt.Sprint(f.incident.ID, " ", f.name()) }

func (f foundCause) String() string {
	return fmt.Sprintf("incident %d: %s [%s]", f.incident.ID, f.cause.Rule, f.cause.Confidence)
}

// is reports whether a cause is one of these: names are RULE or RULE/REASON.
func is(c *model.Cause, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		rule, reason, narrow := strings.Cut(name, "/")
		return c.Rule == rule && (!narrow || c.Reason == reason)
	})
}

// having returns the causes of the Service's incidents with one of these names and an accepted confidence.
func (s *scorer) having(names []string, enough func(model.Confidence) bool) (found []foundCause) {
	for _, in := range s.incidents {
		for i := range in.Causes {
			if c := &in.Causes[i].Cause; is(c, names) && enough(c.Confidence) && !s.elsewhere(in.Causes[i].Windows) {
				found = append(found, foundCause{in, c})
			}
		}
	}
	return found
}

// elsewhere reports whether all of these windows are of other Services: an incident may have several.
func (s *scorer) elsewhere(windows []int) bool {
	others := 0
	for i := range s.tl.Windows {
		w := &s.tl.Windows[i]
		if !slices.Contains(windows, w.ID) {
			continue
		}
		at := slices.IndexFunc(s.tl.Targets, func(t model.Target) bool { return t.Name == w.Target })
		if at < 0 || s.tl.Targets[at].Service == "" || s.tl.Targets[at].Service == s.service {
			return false
		}
		others++
	}
	return others > 0
}

// outcome returns what the run says of a prediction, and why.
func (s *scorer) outcome(p *timeline.Prediction) (model.PredictionOutcome, string, []int) {
	if p.When == timeline.EvictionAsked {
		outcome, why := s.evictions()
		return outcome, why, nil
	}
	if found := s.having(p.Causes, sure); len(found) > 0 {
		var ids []int
		var words []string
		for _, f := range found {
			if !slices.Contains(ids, f.incident.ID) {
				ids = append(ids, f.incident.ID)
			}
			words = append(words, f.String())
		}
		return model.Confirmed, strings.Join(words, ", "), ids
	}
	if why := s.untestable(p); why != "" {
		return model.NotTested, why, nil
	}
	happened, unknown := s.happened(p)
	words := disturbances[p.When]
	switch {
	case unknown != "":
		return model.NotTested, fmt.Sprintf("whether %s is not known: %s", words.happened, unknown), nil
	case len(happened) == 0:
		return model.NotTested, words.none + atNode(p), nil
	}
	shown, whyNot := 0, ""
	for _, span := range happened {
		if why := s.hidden(span); why != "" {
			whyNot = cmp.Or(whyNot, why)
			continue
		}
		shown++
	}
	times := quantity.Count(len(happened), "time")
	if shown == 0 {
		return model.NotTested, fmt.Sprintf("%s (%s), but %s", words.happened, times, whyNot), nil
	}
	if why := s.cameTrueUnharmed(p); why != "" {
		return model.NotTested, why, nil
	}
	if shown < len(happened) {
		times += fmt.Sprintf(", %d of them measured to the end", shown)
	}
	return model.Refuted, fmt.Sprintf("%s (%s), and no incident has the cause %s", words.happened, times,
		ruleNames(p.Causes)), nil
}

// cameTrueUnharmed says that what was predicted happened, but no request was lost by it, which is no refutation. It
// returns "" if it did not happen.
func (s *scorer) cameTrueUnharmed(p *timeline.Prediction) string {
	if !is(&model.Cause{Rule: "prestop-failed"}, p.Causes) {
		return ""
	}
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == timeline.KubeEvent && e.To == "FailedPreStopHook" &&
			s.pods[e.Object.UID] != nil {
			return "the hook of " + e.Object.Name + " failed, but no incident shows that a request was lost by it"
		}
	}
	return ""
}

// untestable says why no run, or not this one, can refute a prediction; "" if it can.
func (s *scorer) untestable(p *timeline.Prediction) string {
	low := s.having(p.Causes, unsure)
	switch {
	case len(p.Causes) == 0:
		return "a run names no cause that would confirm it"
	case len(low) > 0:
		return low[0].String() + ": that is too little to confirm it"
	case !s.measured:
		return "no request was sent to the Service"
	case p.When == "":
		return "a run without it does not refute it"
	}
	return ""
}

// atNode returns where a prediction says that something happens.
func atNode(p *timeline.Prediction) string {
	if p.Node == "" {
		return ""
	}
	return " (" + p.Node + ")"
}

// ruleNames returns the rules of causes, each once.
func ruleNames(causes []string) string {
	var names []string
	for _, c := range causes {
		if rule, _, _ := strings.Cut(c, "/"); !slices.Contains(names, rule) {
			names = append(names, rule)
		}
	}
	return strings.Join(names, " or ")
}

// allPredicted returns the causes that rules of preflight are there to predict.
func allPredicted(rules []timeline.AskedRule) (causes []string) {
	for _, r := range rules {
		causes = append(causes, r.Predicts...)
	}
	return causes
}

// whyMissed says what the rules that could have predicted a cause did instead.
func whyMissed(rules []timeline.AskedRule, c *model.Cause) string {
	var silent, unable []string
	for _, r := range rules {
		switch {
		case !is(c, r.Predicts):
		case r.Unjudged != "":
			unable = append(unable, fmt.Sprintf("%s could not judge (%s)", r.ID, r.Unjudged))
		default:
			silent = append(silent, r.ID)
		}
	}
	if len(silent) > 0 {
		unable = slices.Insert(unable, 0, strings.Join(silent, ", ")+" found nothing of the kind")
	}
	return strings.Join(unable, "; ")
}
