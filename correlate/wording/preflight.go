package wording

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says what came of what preflight had predicted.

// scorecard says in a line what came of what preflight had predicted.
func scorecard(c *model.Scorecard) string {
	text := fmt.Sprintf("predicted %d: confirmed %d, refuted %d", c.Predicted, c.Confirmed, c.Refuted)
	if c.NotTested > 0 {
		text += fmt.Sprintf(", not tested %d", c.NotTested)
	}
	return text + fmt.Sprintf(", missed %d", c.Missed)
}

// foretold says what preflight had predicted of what happened.
func foretold(c *model.Scorecard) string {
	if c == nil {
		return ""
	}
	var rules, parts []string
	for _, p := range c.Predictions {
		name := p.Prediction.Rule + " " + p.Prediction.Name
		if p.Outcome == model.Confirmed && !slices.Contains(rules, name) {
			rules = append(rules, name)
		}
	}
	if more := len(rules) - 2; more > 0 {
		rules = append(rules[:2:2], fmt.Sprintf("%d more", more))
	}
	if len(rules) > 0 {
		parts = append(parts, "preflight had predicted it ("+strings.Join(rules, ", ")+")")
	}
	var missed []string
	for _, m := range c.Misses {
		if !slices.Contains(missed, m.Cause) {
			missed = append(missed, m.Cause)
		}
	}
	switch {
	case len(missed) > 0 && len(parts) > 0:
		parts = append(parts, "but not "+quantity.Names(missed))
	case len(missed) > 0:
		parts = append(parts, "preflight had not predicted "+quantity.Names(missed))
	}
	if c.Refuted > 0 {
		parts = append(parts, fmt.Sprintf("%s not seen this time", quantity.Count(c.Refuted, "prediction")))
	}
	return strings.Join(parts, ", ")
}
