package model

import "lapse/timeline"

// A Scorecard is what preflight predicted before a run, against what happened in it. What is blind is no prediction.
type Scorecard struct {
	Predicted int `json:"predicted"` // confirmed + refuted + notTested
	Confirmed int `json:"confirmed"`
	Refuted   int `json:"refuted"`
	NotTested int `json:"notTested"`
	Missed    int `json:"missed"` // incidents with a cause that a rule is there to predict, and no prediction of it

	Said string `json:"said"` // these figures in a line

	Predictions []ScoredPrediction `json:"predictions"`
	Misses      []Miss             `json:"misses"`
	Unjudged    []UnjudgedRule     `json:"unjudged"` // rules that could not judge
}

// PredictionOutcome is what a run says of a prediction. The list is closed.
type PredictionOutcome string

const (
	// an incident has the cause that was predicted, with medium confidence or more; or an eviction was refused
	Confirmed PredictionOutcome = "confirmed"
	// what it is about happened to the Service and was measured, and no incident has the cause
	Refuted   PredictionOutcome = "refuted"
	NotTested PredictionOutcome = "not-tested" // neither: that is no refutation
)

// A ScoredPrediction is a prediction with what the run says of it.
type ScoredPrediction struct {
	Service    string              `json:"service"` // NAMESPACE/NAME
	Prediction timeline.Prediction `json:"prediction"`
	Outcome    PredictionOutcome   `json:"outcome"`
	Why        string              `json:"why"`                // what the outcome rests on
	Incidents  []int               `json:"incidents,omitzero"` // that confirm it, by ID
}

// A Miss is a cause of an incident which preflight is there to predict, and did not.
type Miss struct {
	Service  string `json:"service"`
	Incident int    `json:"incident"` // its ID
	Cause    string `json:"cause"`    // RULE, or RULE/REASON
	Why      string `json:"why"`      // which rules of preflight found nothing or could not judge
}

// An UnjudgedRule is a rule of preflight that could not judge.
type UnjudgedRule struct {
	Service string `json:"service"`
	Rule    string `json:"rule,omitzero"` // its ID; absent if none could
	Why     string `json:"why"`
}
