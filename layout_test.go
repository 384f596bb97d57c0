package lapse

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport are the arrows of the design: which of our packages a package may import. What is not
// listed may import none.
var mayImport = map[string][]string{
	".":                 {"timeline", "internal/record", "loadgen", "correlate/model", "correlate/verdict", "internal/run/measure"},
	"lapsetest":         {"timeline", "correlate/model", "correlate/verdict", "internal/report"},
	"lapsetest/cluster": {"internal/hint", "internal/kube", "internal/run/signs", "lapsetest", "loadgen", "timeline", "watcher"},

	"docs":                       {},
	"internal/layer":             {},
	"timeline":                   {},
	"internal/hint":              {},
	"internal/hint/input":        {"internal/hint"},
	"internal/record":            {"internal/hint", "timeline"},
	"timeline/stepped":           {},
	"loadgen":                    {"internal/hint", "timeline"},
	"loadgen/faultserver":        {},
	"loadgen/lookup":             {"timeline"},
	"loadgen/nodecheck":          {"timeline"},
	"loadgen/internal/wire":      {"timeline"},
	"loadgen/internal/polled":    {"timeline"},
	"loadgen/internal/stall":     {"timeline", "loadgen/internal/wire"},
	"loadgen/internal/protocol":  {"internal/hint", "timeline", "loadgen/lookup", "loadgen/internal/wire"},
	"loadgen/internal/loadtest":  {"timeline", "loadgen/faultserver"},
	"loadgen/internal/engine":    {"timeline", "loadgen/internal/polled", "loadgen/internal/protocol", "loadgen/internal/stall", "loadgen/internal/wire"},
	"loadgen/hey":                {"timeline", "loadgen", "correlate/quantity"},
	"internal/image":             {"internal/hint"},
	"internal/kube":              {},
	"internal/kube/hook":         {},
	"internal/kube/podspec":      {"internal/kube/hook"},
	"internal/kube/kubetest":     {"internal/kube"},
	"internal/kube/shared":       {"internal/kube"},
	"watcher":                    {"internal/hint", "timeline", "internal/kube"},
	"watcher/internal/snapshot":  {"timeline", "internal/kube/hook", "internal/kube/podspec"},
	"correlate/align":            {"timeline", "correlate/model"},
	"correlate":                  {"timeline", "correlate/align", "correlate/internal/held", "correlate/model", "correlate/internal/windows", "correlate/cluster", "correlate/causes", "correlate/incidents"},
	"correlate/internal/held":    {"timeline", "correlate/model"},
	"correlate/incidents":        {"timeline", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/model":            {"timeline"},
	"correlate/quantity":         {"correlate/model"},
	"correlate/internal/windows": {"timeline", "correlate/model"},
	"correlate/cluster":          {"timeline", "correlate/model", "correlate/internal/windows"},
	"correlate/causes":           {"timeline", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/evidence":  {"timeline", "internal/kube/hook", "correlate/model", "correlate/quantity", "correlate/internal/windows", "correlate/cluster"},
	"correlate/causes/rule":      {"timeline", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/empty":     {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/routes":    {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity", "correlate/internal/windows"},
	"correlate/causes/pods":      {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/network":   {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/truth":            {"correlate/model"},
	"correlate/wording":          {"timeline", "correlate/model", "correlate/quantity"},
	"correlate/verdict":          {"internal/hint", "timeline", "correlate/cluster", "internal/kubectl", "correlate/model", "correlate/quantity", "correlate/internal/windows", "correlate/wording"},
	"correlate/compare":          {"internal/hint", "timeline", "correlate/model", "correlate/quantity", "correlate/verdict", "correlate/internal/windows", "correlate/wording"},
	"internal/history":           {"timeline", "correlate/model", "correlate/verdict"},
	"correlate/trend":            {"correlate/internal/windows", "correlate/model", "correlate/quantity", "internal/history"},
	"internal/report/trend":      {"correlate/model", "correlate/quantity", "correlate/trend", "internal/history", "internal/report/document"},
	"internal/report":            {"internal/hint", "internal/hint/input", "timeline", "correlate/model", "correlate/quantity", "correlate/verdict", "correlate/wording", "correlate/compare"},
	"internal/report/otlp":       {"internal/hint", "timeline", "correlate/model", "correlate/wording", "internal/report/document"},
	"internal/report/perfetto":   {"timeline", "correlate/model", "internal/report/document"},
	"internal/report/chart":      {"timeline", "correlate/model", "correlate/quantity", "internal/report/document"},
	"internal/report/routes":     {"timeline", "correlate/model", "correlate/quantity", "correlate/wording", "internal/report/document"},
	"internal/report/export":     {"timeline", "correlate/align", "correlate/model", "internal/report/document"},
	"internal/report/document":   {},
	"internal/report/junit":      {},
	"internal/report/schematest": {"internal/report"},
	"dashboard/places":           {},
	"dashboard":                  {"correlate/quantity", "dashboard/places"},
	"dashboard/internal/sample":  {"timeline", "correlate", "correlate/model", "correlate/verdict"},
	"dashboard/publish":          {"correlate/model", "timeline"},
	"dashboard/gestures":         {},
	"dashboard/internal/past":    {"dashboard", "dashboard/internal/sample", "correlate/model", "internal/guard/store"},
	"dashboard/internal/shoot":   {"dashboard/internal/past", "internal/run/screen", "dashboard", "dashboard/internal/sample", "dashboard/publish", "correlate/model", "timeline"},
	"deploy":                     {"internal/record", "internal/hint", "timeline", "internal/kube"},
	"deploy/agent":               {"internal/hint", "timeline", "internal/record", "internal/kube"},
	"deploy/mkimage":             {"internal/image"},
	"internal/kubectl":           {},
	"internal/preflight":         {"internal/hint", "internal/hint/input", "correlate/quantity"},
	"internal/run/runtest":       {"timeline", "internal/record", "loadgen/faultserver", "correlate", "correlate/model", "deploy", "deploy/agent", "internal/report", "internal/run/saved"},
	"internal/run/integration":   {},
	"internal/run/wide":          {},
	"internal/run/facts":         {"timeline"},
	"internal/run/flight":        {"timeline", "correlate/align"},
	"internal/run/signs":         {"timeline"},
	"internal/run/source":        {"timeline", "internal/record", "loadgen", "internal/run/facts"},
	"internal/run/version":       {},
	"internal/run/exit":          {"internal/hint", "correlate/verdict"},
	"internal/run/mask":          {"timeline"},
	"internal/run/terminal":      {"internal/report/document"},
	"internal/run/judging":       {"correlate/model", "correlate/verdict", "internal/report", "internal/run/exit", "internal/run/version"},
	"internal/run/live":          {"timeline", "internal/record", "correlate", "correlate/model", "correlate/verdict", "internal/run/judging"},
	"internal/run/measure":       {"timeline", "internal/record", "loadgen", "correlate/model", "correlate/quantity", "correlate/verdict", "internal/run/exit", "internal/run/facts", "internal/run/flight", "internal/run/live", "internal/run/mask", "internal/run/signs", "internal/run/source"},
	"internal/run/command":       {"timeline", "loadgen", "internal/run/mask"},
	"internal/run/metrics":       {"timeline", "correlate/model", "internal/run/exit", "internal/run/live", "internal/run/version"},
	"internal/run/screen":        {"internal/history", "correlate/incidents", "correlate/trend", "internal/report/trend", "internal/run/metrics", "timeline", "correlate/model", "correlate/quantity", "correlate/verdict", "dashboard", "dashboard/publish", "internal/report", "internal/run/exit", "internal/run/live", "internal/run/saved", "internal/run/terminal"},
	"internal/run/saved":         {"internal/hint", "internal/hint/input", "internal/history", "timeline", "internal/record", "correlate", "correlate/model", "correlate/verdict", "dashboard", "internal/report", "internal/report/document", "internal/report/export", "internal/run/exit", "internal/run/judging", "internal/run/terminal"},
	"internal/run/direct":        {"timeline"},
	"internal/run/plane":         {"timeline", "loadgen", "internal/kube"},
	"internal/run/precheck":      {"internal/hint", "internal/hint/input", "correlate/quantity", "internal/preflight", "internal/preflight/cluster", "internal/preflight/manifest", "internal/preflight/output", "internal/preflight/rules", "internal/preflight/service", "internal/run/access", "internal/run/exit", "internal/run/terminal", "internal/run/version"},
	"internal/run/remote":        {"internal/hint", "timeline", "internal/record", "correlate", "correlate/quantity", "deploy", "deploy/agent", "internal/report", "internal/run/access", "internal/run/exit", "internal/run/saved"},
	"internal/run/access":        {"deploy", "internal/kube", "internal/run/exit", "internal/run/version"},
	"internal/run/spec":          {"internal/hint", "internal/hint/input", "timeline", "loadgen", "loadgen/hey", "loadgen/lookup", "internal/kubectl", "correlate/quantity", "correlate/verdict", "deploy", "deploy/agent", "internal/preflight", "internal/report", "watcher", "internal/run/access", "internal/run/exit", "internal/run/judging", "internal/run/mask", "internal/run/plane", "internal/run/saved", "internal/run/signs", "internal/run/source"},
	"internal/run/resolve":       {"internal/hint", "timeline", "loadgen", "loadgen/lookup", "internal/kube", "watcher", "correlate/quantity", "deploy", "internal/preflight", "internal/preflight/cluster", "internal/preflight/rules", "internal/run/access", "internal/run/exit", "internal/run/mask", "internal/run/plane", "internal/run/measure", "internal/run/spec"},
	"internal/run/prober":        {"timeline", "internal/record", "loadgen", "dashboard/places", "deploy", "deploy/agent", "internal/run/exit", "internal/run/facts", "internal/run/mask", "internal/run/source", "internal/run/spec", "internal/run/terminal", "internal/run/version"},
	"internal/guard/gate":        {"internal/hint"},
	"internal/guard/budget":      {"correlate/quantity", "internal/run/direct"},
	"internal/guard/events":      {"timeline", "internal/kube"},
	"internal/guard/flagger":     {"internal/guard/gate"},
	"internal/guard/lead":        {"internal/kube"},
	"internal/guard/outbox":      {},
	"internal/bucket":            {"internal/hint", "internal/history"},
	"internal/guard/configmap":   {"internal/guard/gate", "internal/history", "internal/kube"},
	"internal/guard/store":       {"internal/history", "internal/record", "correlate", "correlate/model", "correlate/verdict", "internal/report", "internal/run/live", "internal/run/saved"},
	"internal/guard":             {"dashboard", "dashboard/places", "timeline", "correlate", "correlate/cluster", "correlate/incidents", "correlate/model", "correlate/quantity", "correlate/verdict", "correlate/wording", "internal/bucket", "internal/hint", "internal/hint/input", "internal/history", "internal/kube", "internal/run/coordinator", "internal/run/exit", "internal/run/flight", "internal/run/live", "internal/run/saved", "internal/run/screen", "internal/run/signs", "internal/run/spec", "watcher"},
	"internal/guard/series":      {"timeline", "correlate/causes", "correlate/model", "internal/guard/budget", "internal/guard/gate", "internal/history", "internal/run/metrics", "internal/run/signs"},
	"internal/run/coordinator":   {"timeline", "internal/record", "loadgen", "loadgen/hey", "loadgen/lookup", "loadgen/nodecheck", "internal/kube", "internal/kube/shared", "watcher", "correlate/model", "correlate/quantity", "internal/report", "deploy", "deploy/agent", "internal/run/command", "internal/run/direct", "internal/run/exit", "internal/run/flight", "internal/run/live", "internal/run/mask", "internal/run/plane", "internal/run/measure", "internal/run/resolve", "internal/run/saved", "internal/run/screen", "internal/run/signs", "internal/run/source", "internal/run/spec", "internal/run/version"},
	"internal/run/workstation":   {"internal/hint", "timeline", "internal/record", "internal/kube", "correlate/model", "correlate/quantity", "correlate/verdict", "internal/report", "internal/report/routes", "deploy", "deploy/agent", "internal/run/command", "internal/run/exit", "internal/run/facts", "internal/run/judging", "internal/run/live", "internal/run/measure", "internal/run/prober", "internal/run/resolve", "internal/run/saved", "internal/run/screen", "internal/run/source", "internal/run/spec", "internal/run/terminal"},
	"internal/doctor":            {"correlate/quantity", "deploy", "internal/hint", "internal/image", "internal/run/access", "internal/run/spec", "loadgen"},
	"internal/run":               {"internal/run/coordinator", "internal/run/exit", "internal/run/spec", "internal/run/workstation"},
	"internal/cli":               {"docs", "internal/bucket", "internal/doctor", "internal/guard", "internal/guard/budget", "internal/guard/configmap", "internal/guard/gate", "internal/guard/lead", "internal/guard/store", "watcher", "internal/hint", "internal/hint/input", "internal/image", "internal/run", "internal/run/access", "internal/run/direct", "internal/run/exit", "internal/run/judging", "internal/run/precheck", "internal/run/prober", "internal/run/remote", "internal/run/resolve", "internal/run/saved", "internal/run/screen", "internal/run/spec", "internal/run/terminal", "internal/run/version", "internal/run/workstation", "timeline", "internal/record", "loadgen", "loadgen/hey", "correlate", "correlate/model", "correlate/quantity", "correlate/causes", "correlate/compare", "correlate/trend", "correlate/verdict", "internal/report", "internal/report/otlp", "internal/report/document", "internal/report/trend", "deploy", "deploy/agent", "internal/selftest", "internal/trials"},
	"cmd/lapse":                  {"internal/cli"},

	"internal/selftest": {"timeline", "loadgen/faultserver", "correlate/model", "correlate/quantity", "correlate/truth", "correlate/verdict"},
	"internal/trials":   {"timeline", "internal/record", "loadgen/faultserver", "correlate/model", "correlate/truth", "internal/run/coordinator", "internal/run/exit", "internal/run/saved", "internal/run/spec", "internal/selftest"},

	"internal/preflight/service":  {"internal/hint", "internal/kube/podspec", "correlate/quantity"},
	"internal/preflight/manifest": {"internal/hint", "internal/hint/input", "correlate/quantity", "internal/kube/podspec", "internal/preflight/service"},
	"internal/preflight/cluster":  {"internal/hint", "internal/kube", "watcher", "correlate/quantity", "internal/preflight/service"},
	"internal/preflight/rules":    {"timeline", "internal/kube/hook", "internal/kube/podspec", "correlate/quantity", "internal/preflight/service"},
	"internal/preflight/output":   {"correlate/quantity", "internal/preflight", "internal/preflight/manifest", "internal/preflight/rules", "internal/preflight/service", "internal/report/document", "internal/report/junit"},

	"internal/image/testregistry": {},

	"correlate/causes/connections": {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
}

// The only packages that may know of Kubernetes.
var knowKubernetes = []string{"internal/kube", "internal/kube/kubetest", "internal/kube/shared", "internal/kube/podspec", "watcher", "watcher/internal/snapshot", "deploy", "deploy/agent", "internal/preflight/service", "internal/preflight/manifest", "internal/preflight/cluster", "internal/preflight/rules", "internal/doctor", "internal/guard/configmap", "internal/guard/events", "internal/guard/lead", "internal/run/access", "internal/run/coordinator", "internal/run/plane", "internal/run/prober", "internal/run/resolve", "internal/run/spec", "internal/run/workstation", "lapsetest/cluster", "internal/cli"}

func TestImportsFollowTheArrows(t *testing.T) {
	for pkg, imports := range goList(t, "{{.ImportPath}} {{join .Imports \" \"}}") {
		name, ours := strings.CutPrefix(pkg, "lapse/")
		if !ours {
			name = "." // the root
		}
		allowed, listed := mayImport[name]
		if !listed {
			t.Errorf("package %s is in no layer: add it to mayImport", name)
		}
		for _, imp := range imports {
			if ours, ok := strings.CutPrefix(imp, "lapse/"); ok && !slices.Contains(allowed, ours) && !strings.HasPrefix(ours, name+"/") {
				t.Errorf("%s imports %s, which its layer must not know", name, ours)
			}
			if strings.HasPrefix(imp, "k8s.io/") && !slices.Contains(knowKubernetes, name) {
				t.Errorf("%s imports %s: only %v may know Kubernetes", name, imp, knowKubernetes)
			}
		}
	}
}

func TestTimelineNeedsOnlyTheStandardLibrary(t *testing.T) {
	for _, deps := range goList(t, "{{.ImportPath}} {{join .Deps \" \"}}", "./timeline") {
		for _, dep := range deps {
			if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
				t.Errorf("timeline depends on %s", dep)
			}
		}
	}
}

// A test of a URL compiles nothing of Kubernetes: lapsetest/cluster is for Services.
func TestTheAPIForURLsDoesWithoutKubernetes(t *testing.T) {
	for pkg, deps := range goList(t, "{{.ImportPath}} {{join .Deps \" \"}}", ".", "./lapsetest") {
		if i := slices.IndexFunc(deps, func(dep string) bool { return strings.HasPrefix(dep, "k8s.io/") }); i >= 0 {
			t.Errorf("%s depends on %s", pkg, deps[i])
		}
	}
}

// mayNotBeLinked are packages that the program must do without, by their path's beginning, and why.
// The documentation of package kube has the figures.
var mayNotBeLinked = map[string]string{
	"k8s.io/client-go/kubernetes":      "it registers every kind of every API group when the program starts: ask through lapse/internal/kube",
	"html/template":                    "no page of Lapse is a template, and it is large",
	"gonum.org/v1/gonum/blas":          "linear algebra, which gonum's stat/distuv brings: gonum.org/v1/gonum/mathext has the functions behind it",
	"github.com/google/gnostic-models": "it registers descriptors of all of OpenAPI when the program starts; client-go's discovery, gentype, applyconfigurations and testing bring it",
}

func TestTheProgramDoesWithoutWhatCostsTensOfMegabytes(t *testing.T) {
	for _, deps := range goList(t, "{{.ImportPath}} {{join .Deps \" \"}}", "./cmd/lapse") {
		for banned, why := range mayNotBeLinked {
			if i := slices.IndexFunc(deps, func(dep string) bool { return dep == banned || strings.HasPrefix(dep, banned+"/") }); i >= 0 {
				t.Errorf("cmd/lapse depends on %s: %s", deps[i], why)
			}
		}
	}
}

// goList runs go list with a format of "key value value…" and returns the values by key.
func goList(t *testing.T, format string, patterns ...string) map[string][]string {
	t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	out, err := exec.Command("go", append([]string{"list", "-f", format}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		found[words[0]] = words[1:]
	}
	return found
}
