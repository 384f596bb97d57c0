package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"lapse/sandbox/drill"
)

// A prediction is what a rule of `lapse preflight` says of a scenario's manifests.
type prediction struct {
	Rule        string   `json:"rule"`
	ConfirmedBy []string `json:"confirmedBy"` // causes, as RULE or RULE/REASON; none: a run cannot tell
}

// predictAll asks preflight about the manifests of each scenario that was played.
func predictAll(ctx context.Context, lapse string, results []result) error {
	known := map[string][]prediction{}
	for i := range results {
		r := &results[i]
		if _, asked := known[r.scenario.Name]; !asked {
			all, err := predict(ctx, lapse, r.scenario.Manifest)
			if err != nil {
				return fmt.Errorf("preflight of %s: %w", r.scenario.Name, err)
			}
			known[r.scenario.Name] = all
		}
		r.predicted = known[r.scenario.Name]
	}
	return nil
}

// predict asks preflight about a manifest.
func predict(ctx context.Context, lapse, manifest string) ([]prediction, error) {
	cmd := exec.CommandContext(ctx, lapse, "preflight", "svc/web", "-n", firstNamespace, "-f", "-",
		"--skip", "LP00", "-o", "json")
	cmd.Stdin = strings.NewReader(manifest)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	const findings, nothingKnown = 3, 4 // its exit codes
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || exit.ExitCode() != findings && exit.ExitCode() != nothingKnown) {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var report struct {
		Services []struct{ Findings []prediction }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, err
	}
	var all []prediction
	var found []prediction
	for _, s := range report.Services {
		found = append(found, s.Findings...)
	}
	for _, p := range found { // a rule may find something more than once
		i := slices.IndexFunc(all, func(o prediction) bool { return o.Rule == p.Rule })
		if i < 0 {
			all = append(all, p)
			continue
		}
		all[i].ConfirmedBy = append(slices.Clip(all[i].ConfirmedBy), p.ConfirmedBy...)
	}
	slices.SortFunc(all, func(a, b prediction) int { return strings.Compare(a.Rule, b.Rule) })
	return all, nil
}

// cameTrue reports whether an incident of a run has a cause that confirms the prediction, with medium confidence or
// more.
func (p prediction) cameTrue(incidents []drill.Incident) bool {
	return slices.ContainsFunc(incidents, p.explains)
}

func (p prediction) explains(i drill.Incident) bool {
	return slices.ContainsFunc(i.Causes, func(c drill.Cause) bool {
		return c.Confidence != "low" && slices.ContainsFunc(p.ConfirmedBy, func(name string) bool {
			rule, reason, narrow := strings.Cut(name, "/")
			return c.Rule == rule && (!narrow || c.Reason == reason)
		})
	})
}

// predictionSummary counts what came true of the predictions, and the incidents that were predicted.
func predictionSummary(results []result) string {
	predicted, came, incidents, foreseen := 0, 0, 0, 0
	for _, r := range results {
		if r.err != nil {
			continue
		}
		for _, p := range r.predicted {
			if len(p.ConfirmedBy) == 0 {
				continue
			}
			if predicted++; p.cameTrue(r.run.Timeline.Incidents) {
				came++
			}
		}
		for _, i := range r.run.Timeline.Incidents {
			if i.Failed == 0 {
				continue
			}
			if incidents++; slices.ContainsFunc(r.predicted, func(p prediction) bool { return p.explains(i) }) {
				foreseen++
			}
		}
	}
	return fmt.Sprintf("Preflight, from the manifests alone, predicted %d times something that a run can confirm; it "+
		"came true %d times. Of %d incidents %d have a cause that was predicted.\n",
		predicted, came, incidents, foreseen)
}
