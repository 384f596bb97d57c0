package causes

import (
	"cmp"
	"fmt"
	"slices"

	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
)

// rank sorts causes by confidence and makes each name the others. High means that no rival fits as
// well: where two claim it, neither keeps it.
func rank(causes []model.Cause) []model.Cause {
	slices.SortStableFunc(causes, func(a, b model.Cause) int {
		return cmp.Compare(rule.Grade(b.Confidence), rule.Grade(a.Confidence))
	})
	if len(causes) > 1 && causes[1].Confidence == model.High {
		for i := range causes {
			causes[i].Confidence = rule.Lower(causes[i].Confidence, model.Medium)
		}
	}
	for i := range causes {
		causes[i].Rivals = append([]string{}, causes[i].Rivals...)
		for j, rival := range causes {
			if i != j {
				causes[i].Rivals = append(causes[i].Rivals, rivalry(rival, j < i))
			}
		}
	}
	return causes
}

func rivalry(rival model.Cause, ahead bool) string {
	if ahead {
		return fmt.Sprintf("%s ranks higher [%s]", rival.Rule, rival.Confidence)
	}
	return fmt.Sprintf("%s fits too, but ranks lower [%s]: %s", rival.Rule, rival.Confidence, rival.Text)
}
