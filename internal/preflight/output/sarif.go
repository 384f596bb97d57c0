package output

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lapse/internal/preflight"
	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
	"lapse/internal/report/document"
)

// levels are SARIF's words for severities.
var levels = map[rules.Severity]string{
	rules.WillLose:  "error",
	rules.WillBlock: "error",
	rules.MayLose:   "warning",
	rules.Blind:     "note",
}

// unreadable is the rule that problems of files are results of, in SARIF only.
const unreadable = "unreadable"

// sarif is an object of SARIF.
type sarif map[string]any

func words(text string) sarif { return sarif{"text": text} }

// writeSARIF writes the parts of SARIF 2.1.0 that code scanning reads. Each finding is one result, with its line:
// GitHub refuses a file with a result that has none. An accepted finding is a suppressed result, with its reason.
//
//	https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
//	https://docs.github.com/en/code-security/reference/code-scanning/sarif-support-for-code-scanning
func writeSARIF(w io.Writer, r *preflight.Report, _ document.Screen) error {
	l := log{index: map[string]int{}, times: map[string]int{}}
	for _, rule := range slices.Concat([]rules.Rule{preflight.NothingKnown}, rules.All()) {
		l.about(rule.ID, rule.Name, rule.Doc)
	}
	l.about(unreadable, unreadable,
		"A file that cannot be read, that the API server does not take, or that replaces an object of another one.")
	l.addFindings(r)
	for _, p := range r.Problems {
		l.addProblem(p)
	}
	driver := sarif{"name": "lapse preflight", "version": r.Tool.Version, "rules": l.rules}
	run := sarif{
		"tool":       sarif{"driver": driver},
		"results":    l.results,
		"columnKind": "utf16CodeUnits",
		"invocations": []sarif{{
			"executionSuccessful": r.Verdict.Result != preflight.Unreadable,
			"exitCode":            r.Verdict.ExitCode,
		}},
	}
	file := sarif{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []sarif{run},
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encode SARIF: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// A log collects the rules and results of a run.
type log struct {
	rules   []sarif
	index   map[string]int // of the rules, by ID
	results []sarif
	times   map[string]int // how many results a fingerprint has
}

// about adds a rule.
func (l *log) about(id, name, doc string) {
	help := doc + " Each result says what it rests on and what to change. " +
		"Accept one with the annotation " + preflight.IgnoreAnnotation + ": \"" + id + ": why\", or with --baseline."
	l.index[id] = len(l.rules)
	l.rules = append(l.rules, sarif{
		"id":               id,
		"name":             name,
		"shortDescription": words(doc),
		"fullDescription":  words(doc),
		"help":             words(help),
		"properties": sarif{
			"tags":             []string{"kubernetes", "availability"},
			"precision":        "high",
			"problem.severity": "warning",
		},
	})
}

// add adds a result of a rule.
func (l *log) add(result sarif, rule, fingerprint string) {
	l.times[fingerprint]++
	hash := fmt.Sprintf("%s:%d", fingerprint, l.times[fingerprint])
	result["ruleId"], result["ruleIndex"] = rule, l.index[rule]
	result["partialFingerprints"] = sarif{"primaryLocationLineHash": hash}
	l.results = append(l.results, result)
}

// addFindings adds each finding once.
func (l *log) addFindings(r *preflight.Report) {
	l.results = []sarif{}
	known := map[string]bool{}
	for i := range r.Services {
		s := &r.Services[i]
		for _, f := range slices.Concat(s.Findings, s.Accepted) {
			fingerprint := f.Fingerprint(s.Namespace)
			if key := fingerprint + f.Prediction; !known[key] {
				known[key] = true
				l.add(resultOf(&f, s), f.Rule, fingerprint)
			}
		}
	}
}

// addProblem adds what is wrong with a file.
func (l *log) addProblem(p manifest.Problem) {
	level := "error"
	if p.Warning {
		level = "warning"
	}
	of := preflight.Finding{Finding: rules.Finding{
		Rule:     unreadable,
		Evidence: []service.Evidence{{Object: p.Place.Path(), Field: p.Text}},
	}}
	result := sarif{
		"level":     level,
		"message":   words(strings.TrimPrefix(p.Object+": "+p.Text, ": ")),
		"locations": []sarif{{"physicalLocation": location(p.Place)}},
	}
	l.add(result, unreadable, of.Fingerprint(p.Object))
}

// resultOf returns a finding as a result.
func resultOf(f *preflight.Finding, of *preflight.Result) sarif {
	var logical []sarif
	for _, e := range f.Evidence {
		if e.Object != "cluster" {
			logical = append(logical, sarif{"fullyQualifiedName": e.Object + "." + e.Field, "name": e.Value})
		}
	}
	place := placeOf(f, of)
	result := sarif{
		"level":      levels[f.Severity],
		"message":    words(f.Prediction + ". Fix: " + f.Fix + "\n" + evidence(f)),
		"locations":  []sarif{{"physicalLocation": location(place), "logicalLocations": logical}},
		"properties": sarif{"severity": f.Severity, "service": of.Service},
	}
	if related := relatedTo(f, place); related != nil {
		result["relatedLocations"] = related
	}
	if f.Accepted != "" {
		result["suppressions"] = []sarif{{"kind": "external", "justification": f.Accepted}}
	}
	return result
}

// placeOf returns where a finding stands. For an object of a cluster it is a made-up path: cluster/NAMESPACE/KIND/NAME.
func placeOf(f *preflight.Finding, of *preflight.Result) manifest.Place {
	if f.Place != nil {
		return *f.Place
	}
	kind, name, _ := strings.Cut(f.Object(), "/")
	parts := []string{"cluster", of.Namespace, kind, name}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return manifest.Place{File: strings.Join(parts, "/"), Line: 1}
}

// relatedTo returns the other places of a finding's evidence.
func relatedTo(f *preflight.Finding, place manifest.Place) (related []sarif) {
	known := map[manifest.Place]bool{place: true}
	for i, p := range f.At {
		if p.Line == 0 || known[p] {
			continue
		}
		known[p] = true
		related = append(related, sarif{
			"id":               len(related),
			"physicalLocation": location(p),
			"message":          words(f.Evidence[i].String()),
		})
	}
	return related
}

// location returns a place as a physical location. The line of a template is not known from what was rendered of it.
func location(p manifest.Place) sarif {
	line := max(p.Line, 1)
	if p.Template != "" {
		line = 1
	}
	return sarif{"artifactLocation": sarif{"uri": relative(p.Path())}, "region": sarif{"startLine": line}}
}

// relative returns a path as a URI, relative to the working directory if it is below that.
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
