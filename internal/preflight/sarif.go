package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lapse/internal/report/document"
)

// levels are SARIF's words for severities.
var levels = map[Severity]string{WillLose: "error", WillBlock: "error", MayLose: "warning", Blind: "note"}

// unreadable is a rule for SARIF alone, of the problems of files.
const unreadable = "unreadable"

// sarif is an object of SARIF.
type sarif map[string]any

func words(text string) sarif { return sarif{"text": text} }

// writeSARIF writes SARIF 2.1.0, the parts that code scanning reads. Each finding is there once, with its line: GitHub
// refuses a file with a result that has none. What is accepted is there, suppressed with its reason.
//
//	https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
//	https://docs.github.com/en/code-security/reference/code-scanning/sarif-support-for-code-scanning
func writeSARIF(w io.Writer, r *Report, _ document.Screen) error {
	about := []sarif{}
	index := map[string]int{}
	for _, rule := range slices.Concat([]Rule{nothingKnown}, rules) {
		index[rule.ID] = len(about)
		about = append(about, aboutRule(rule.ID, rule.Name, rule.Doc))
	}
	index[unreadable] = len(about)
	about = append(about, aboutRule(unreadable, unreadable, "A file that cannot be read, or that the API server does not take."))

	results := []sarif{}
	times := map[string]int{} // how often a fingerprint was there
	add := func(result sarif, rule, fingerprint string) {
		times[fingerprint]++
		result["ruleId"], result["ruleIndex"] = rule, index[rule]
		result["partialFingerprints"] = sarif{"primaryLocationLineHash": fmt.Sprintf("%s:%d", fingerprint, times[fingerprint])}
		results = append(results, result)
	}
	known := map[string]bool{}
	for i := range r.Services {
		s := &r.Services[i]
		for _, f := range slices.Concat(s.Findings, s.Accepted) {
			fingerprint := f.fingerprint(s.namespace)
			if key := fingerprint + f.Prediction; known[key] {
				continue
			} else {
				known[key] = true
			}
			add(f.sarif(s), f.Rule, fingerprint)
		}
	}
	for _, p := range r.Problems {
		level := "error"
		if p.Warning {
			level = "warning"
		}
		of := Finding{Rule: unreadable, Evidence: []Evidence{{p.Place.path(), p.Text, ""}}}
		add(sarif{"level": level, "message": words(strings.TrimPrefix(p.Object+": "+p.Text, ": ")), "locations": []sarif{{"physicalLocation": p.Place.sarif()}}}, unreadable, of.fingerprint(p.Object))
	}
	run := sarif{
		"tool":       sarif{"driver": sarif{"name": "lapse preflight", "version": r.Tool.Version, "rules": about}},
		"results":    results,
		"columnKind": "utf16CodeUnits",
		"invocations": []sarif{{
			"executionSuccessful": r.Verdict.Result != Unreadable, "exitCode": r.Verdict.ExitCode,
		}},
	}
	text, err := json.MarshalIndent(sarif{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": []sarif{run}}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode SARIF: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

func aboutRule(id, name, doc string) sarif {
	return sarif{
		"id": id, "name": name, "shortDescription": words(doc), "fullDescription": words(doc),
		"help":       words(doc + " Each result says what it rests on and what to change. Accept one with the annotation " + IgnoreAnnotation + ": \"" + id + ": why\", or with --baseline."),
		"properties": sarif{"tags": []string{"kubernetes", "availability"}, "precision": "high", "problem.severity": "warning"},
	}
}

func (f *Finding) sarif(of *Result) sarif {
	var logical []sarif
	for _, e := range f.Evidence {
		if e.Object != "cluster" {
			logical = append(logical, sarif{"fullyQualifiedName": e.Object + "." + e.Field, "name": e.Value})
		}
	}
	place := f.Place
	if place == nil { // read from a cluster
		kind, name, _ := strings.Cut(f.object(), "/")
		place = &Place{File: strings.Join(slices.DeleteFunc([]string{"cluster", of.namespace, kind, name}, func(s string) bool { return s == "" }), "/"), Line: 1}
	}
	result := sarif{
		"level": levels[f.Severity], "message": words(f.Prediction + ". Fix: " + f.Fix + "\n" + f.evidence()),
		"locations":  []sarif{{"physicalLocation": place.sarif(), "logicalLocations": logical}},
		"properties": sarif{"severity": f.Severity, "service": of.Service},
	}
	var related []sarif
	places := map[Place]bool{*place: true}
	for i, p := range f.at {
		if p.Line > 0 && !places[p] {
			places[p] = true
			related = append(related, sarif{"id": len(related), "physicalLocation": p.sarif(), "message": words(f.Evidence[i].String())})
		}
	}
	if related != nil {
		result["relatedLocations"] = related
	}
	if f.Accepted != "" {
		result["suppressions"] = []sarif{{"kind": "external", "justification": f.Accepted}}
	}
	return result
}

// path is the file of a repository: of a rendered object, the template.
func (p Place) path() string {
	if p.Template != "" {
		return p.Template
	}
	if p.File == standardInput {
		return "standard-input"
	}
	return p.File
}

// sarif is the place as a physical location. The line of a template is not known from what was rendered of it.
func (p Place) sarif() sarif {
	line := max(p.Line, 1)
	if p.Template != "" {
		line = 1
	}
	return sarif{"artifactLocation": sarif{"uri": relative(p.path())}, "region": sarif{"startLine": line}}
}

// relative is a path as a URI, from the working directory on if it is below that.
func relative(path string) string {
	path = filepath.Clean(path)
	if here, err := os.Getwd(); err == nil && filepath.IsAbs(path) {
		if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) {
			path = below
		}
	}
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}
