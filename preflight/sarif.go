package preflight

import (
	"encoding/json"
	"fmt"
	"io"

	"lapse/report/document"
)

// levels are SARIF's words for severities.
var levels = map[Severity]string{WillLose: "error", WillBlock: "error", MayLose: "warning", Blind: "note"}

// writeSARIF writes SARIF 2.1.0, the parts that code scanning reads. What is accepted is there, suppressed with its
// reason. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
func writeSARIF(w io.Writer, r *Result, _ document.Screen) error {
	type text struct {
		Text string `json:"text"`
	}
	type object map[string]any
	about := []object{}
	for _, rule := range rules {
		about = append(about, object{"id": rule.ID, "name": rule.Name, "shortDescription": text{rule.Doc}})
	}
	results := []object{}
	add := func(f Finding) {
		places := []object{}
		for _, e := range f.Evidence {
			places = append(places, object{"fullyQualifiedName": e.Object + "." + e.Field, "name": e.Value})
		}
		result := object{"ruleId": f.Rule, "level": levels[f.Severity], "message": text{f.Prediction + ". Fix: " + f.Fix}, "locations": []object{{"logicalLocations": places}}}
		if f.Accepted != "" {
			result["suppressions"] = []object{{"kind": "external", "justification": f.Accepted}}
		}
		results = append(results, result)
	}
	for _, f := range r.Findings {
		add(f)
	}
	for _, f := range r.Accepted {
		add(f)
	}
	document, err := json.MarshalIndent(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "lapse preflight", "rules": about}}, "results": results}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode SARIF: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", document)
	return err
}
