package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"lapse/sandbox/drill"
)

const (
	reachTable   = "reach.md"
	reachReports = "reach" // folder of the runs' reports, beside the table
)

// fillReach writes reach.md: which kinds of Services, by which ways, over which protocols and kinds of connections
// were measured, with what broke each and what Lapse called it. Beside it lies the report of the run that each line
// is about.
func fillReach(ctx context.Context, lapse, folder string, results []result) error {
	if err := os.MkdirAll(filepath.Join(folder, reachReports), 0o755); err != nil {
		return err
	}
	var shown []result
	for _, g := range groups(results) {
		r := best(g, g[0].scenario.Name)
		if r == nil || r.scenario.original != "" {
			continue
		}
		i := slices.IndexFunc(shown, func(have result) bool { return have.scenario.Name == r.scenario.Name })
		if i >= 0 { // in the other mode
			continue
		}
		report, err := exec.CommandContext(ctx, lapse, "report", r.run.Dir).Output()
		if len(report) == 0 {
			return fmt.Errorf("report on %s: %w", r.run.Dir, err) // it exits as the gate says
		}
		file := filepath.Join(folder, reachReports, r.scenario.Name+".txt")
		if err := os.WriteFile(file, []byte(labCommand.ReplaceAllString(labLane.ReplaceAllString(string(report), "[ steps ]"), "")), 0o644); err != nil {
			return err
		}
		shown = append(shown, *r)
	}
	return os.WriteFile(filepath.Join(folder, reachTable), []byte(reachDocument(shown)), 0o644)
}

// A reached is what one run measured.
type reached struct {
	service     string // the kind of the Service
	ways        []string
	protocols   []string
	connections []string
}

func reachDocument(results []result) string {
	var doc strings.Builder
	fmt.Fprint(&doc, `# What can be measured, and what was

Each line is a scenario of the [lab](../../sandbox/lab/scenarios), played on a real cluster of three nodes: which kind of Service it measured, by which ways, over which protocol and kinds
of connections; what was done to it, by its name; and what Lapse called it. The report of the run is linked. [What each kind of Service needs, and what a pass does not cover](../how-to/kinds-of-services.md).
Made by `+"`make lab`"+`.

| Service | way | protocol | connections | scenario | outcome | named |
|---|---|---|---|---|---|---|
`)
	rows := make([]string, 0, len(results))
	for _, r := range results {
		rows = append(rows, reachRow(r))
	}
	slices.Sort(rows)
	for _, row := range rows {
		fmt.Fprintln(&doc, row)
	}
	return doc.String()
}

func reachRow(r result) string {
	what, outcomes, said := reachOf(r), tally{}, tally{}
	for _, n := range r.names {
		outcomes.add(string(n.outcome))
		if n.said != "" {
			said.add(n.said + " " + n.confidence)
		}
	}
	outcome := outcomes.String()
	if !r.ok() {
		outcome += ", not all held"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | [%s](%s/%s.txt) | %s | %s |", what.service, strings.Join(what.ways, ", "), strings.Join(what.protocols, ", "),
		strings.Join(what.connections, ", "), r.scenario.Name, reachReports, r.scenario.Name, outcome, cmp.Or(said.String(), "–"))
}

// reachOf says what a run measured: of its targets what they are, of its Service what the manifest says.
func reachOf(r result) (what reached) {
	what.service = serviceKind(r.scenario.Manifest)
	add := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, t := range r.run.Timeline.Targets {
		if t.Kind == "control" || t.Kind == "direct" {
			continue
		}
		u, err := url.Parse(t.URL)
		if err != nil {
			continue
		}
		add(&what.protocols, u.Scheme)
		add(&what.connections, t.Kind)
		add(&what.ways, way(r.scenario, t))
	}
	return what
}

// way is how the requests of a target reach the Service.
func way(s Scenario, t drill.Target) string {
	switch {
	case t.Route != "":
		return t.Route
	case t.Service != "" && t.Turns:
		return "headless"
	case t.Service != "":
		return "clusterip"
	case s.Outside.Ingress != nil:
		return "URL of the ingress"
	case s.Outside.Balancer != nil:
		return "URL of the load balancer"
	}
	return "URL"
}

// serviceKind is the kind of the Service web of a manifest, in words.
func serviceKind(manifest string) string {
	for _, text := range strings.Split("\n"+manifest, "\n---") {
		var s corev1.Service
		if err := yaml.Unmarshal([]byte(text), &s); err != nil || s.Kind != "Service" || s.Name != "web" {
			continue
		}
		kind := string(cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP))
		if s.Spec.ClusterIP == corev1.ClusterIPNone {
			kind = "headless"
		}
		for _, more := range []struct {
			is   bool
			text string
		}{
			{len(s.Spec.ExternalIPs) > 0, "external IPs"},
			{len(s.Spec.Selector) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName, "no selector"},
			{s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP, "session affinity"},
			{s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal, "internalTrafficPolicy Local"},
			{s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal, "externalTrafficPolicy Local"},
			{s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack, "dual stack"},
		} {
			if more.is {
				kind += ", " + more.text
			}
		}
		return kind
	}
	return "–"
}
