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
	".":         {"timeline", "record", "loadgen", "correlate/model", "correlate/verdict", "run/measure"},
	"lapsetest": {"timeline", "correlate/model", "correlate/verdict", "report"},

	"internal/layer":            {},
	"timeline":                  {},
	"hint":                      {},
	"hint/input":                {},
	"record":                    {"hint", "timeline"},
	"timeline/stepped":          {},
	"loadgen":                   {"hint", "timeline"},
	"loadgen/faultserver":       {},
	"loadgen/lookup":            {"timeline"},
	"loadgen/nodecheck":         {"timeline"},
	"loadgen/wire":              {"timeline"},
	"loadgen/polled":            {"timeline"},
	"loadgen/stall":             {"timeline", "loadgen/wire"},
	"loadgen/protocol":          {"hint", "timeline", "loadgen/lookup", "loadgen/wire"},
	"loadgen/engine":            {"timeline", "loadgen/polled", "loadgen/protocol", "loadgen/stall", "loadgen/wire"},
	"loadgen/hey":               {"timeline", "loadgen", "correlate/quantity"},
	"kube":                      {},
	"kube/hook":                 {},
	"kube/kubetest":             {"kube"},
	"watcher":                   {"hint", "timeline", "kube", "kube/hook"},
	"correlate/align":           {"timeline", "correlate/model"},
	"correlate":                 {"timeline", "correlate/align", "correlate/held", "correlate/model", "correlate/windows", "correlate/cluster", "correlate/causes", "correlate/incidents"},
	"correlate/held":            {"timeline", "correlate/model"},
	"correlate/kubectl":         {},
	"correlate/incidents":       {"timeline", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/model":           {"timeline"},
	"correlate/quantity":        {"correlate/model"},
	"correlate/windows":         {"timeline", "correlate/model"},
	"correlate/cluster":         {"timeline", "correlate/model", "correlate/windows"},
	"correlate/causes":          {"timeline", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/evidence": {"timeline", "kube/hook", "correlate/model", "correlate/quantity", "correlate/windows", "correlate/cluster"},
	"correlate/causes/rule":     {"timeline", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/empty":    {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/routes":   {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity", "correlate/windows"},
	"correlate/causes/pods":     {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/causes/network":  {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
	"correlate/truth":           {"correlate/model"},
	"correlate/wording":         {"timeline", "correlate/model", "correlate/quantity"},
	"correlate/verdict":         {"hint", "timeline", "correlate/cluster", "correlate/kubectl", "correlate/model", "correlate/quantity", "correlate/windows", "correlate/wording"},
	"correlate/compare":         {"timeline", "correlate/model", "correlate/quantity", "correlate/verdict", "correlate/windows", "correlate/wording"},
	"report":                    {"hint", "hint/input", "timeline", "correlate/align", "correlate/model", "correlate/quantity", "correlate/verdict", "correlate/wording", "correlate/compare"},
	"report/document":           {},
	"report/junit":              {},
	"report/schematest":         {"report"},
	"dashboard/places":          {},
	"dashboard":                 {"dashboard/places"},
	"dashboard/internal/sample": {"timeline", "correlate", "correlate/model", "correlate/verdict"},
	"dashboard/publish":         {"correlate/model", "timeline"},
	"dashboard/gestures":        {},
	"dashboard/internal/shoot":  {"dashboard", "dashboard/internal/sample", "dashboard/publish", "correlate/model", "timeline"},
	"deploy":                    {"record", "hint", "timeline", "kube"},
	"deploy/agent":              {"hint", "timeline", "record", "kube"},
	"deploy/mkimage":            {},
	"preflight":                 {"hint", "hint/input", "kube", "kube/hook", "timeline", "correlate/quantity", "report/document", "report/junit", "watcher"},
	"run/runtest":               {},
	"run/facts":                 {"timeline"},
	"run/source":                {"timeline", "record", "loadgen", "run/facts"},
	"run/version":               {},
	"run/exit":                  {"hint", "correlate/verdict"},
	"run/mask":                  {"timeline"},
	"run/terminal":              {"report/document"},
	"run/judging":               {"correlate/model", "correlate/verdict", "report", "run/exit", "run/version"},
	"run/live":                  {"timeline", "record", "correlate", "correlate/model", "correlate/verdict", "run/judging"},
	"run/measure":               {"timeline", "record", "loadgen", "correlate/model", "correlate/quantity", "correlate/verdict", "run/exit", "run/facts", "run/live", "run/mask", "run/source"},
	"run/command":               {"timeline", "loadgen", "run/mask"},
	"run/screen":                {"timeline", "correlate/model", "correlate/quantity", "correlate/verdict", "dashboard", "dashboard/publish", "report", "run/exit", "run/live", "run/terminal"},
	"run/saved":                 {"hint", "timeline", "record", "correlate", "correlate/model", "correlate/verdict", "dashboard", "report", "run/exit", "run/judging", "run/terminal"},
	"run/direct":                {"timeline"},
	"run/precheck":              {"hint", "correlate/quantity", "preflight", "run/access", "run/exit", "run/terminal", "run/version"},
	"run/remote":                {"hint", "timeline", "record", "correlate", "correlate/quantity", "deploy", "deploy/agent", "report", "run/access", "run/exit", "run/saved"},
	"run/access":                {"deploy", "kube", "run/exit", "run/version"},
	"run/spec":                  {"hint", "hint/input", "timeline", "loadgen", "loadgen/hey", "loadgen/lookup", "correlate/kubectl", "correlate/quantity", "correlate/verdict", "deploy", "deploy/agent", "preflight", "report", "watcher", "run/access", "run/exit", "run/judging", "run/mask", "run/saved", "run/source"},
	"run":                       {"hint", "timeline", "record", "loadgen", "loadgen/hey", "loadgen/lookup", "loadgen/nodecheck", "kube", "watcher", "correlate", "correlate/model", "correlate/quantity", "correlate/verdict", "report", "deploy", "deploy/agent", "dashboard/places", "preflight"},
	"cmd/lapse":                 {"hint", "run", "run/access", "run/exit", "run/judging", "run/precheck", "run/remote", "run/saved", "run/screen", "run/spec", "run/terminal", "run/version", "timeline", "record", "loadgen", "loadgen/hey", "correlate", "correlate/model", "correlate/quantity", "correlate/causes", "correlate/verdict", "report", "deploy", "deploy/agent"},

	"cmd/lapse/internal/selftest": {"timeline", "loadgen/faultserver", "correlate/model", "correlate/quantity", "correlate/truth", "correlate/verdict"},
	"cmd/lapse/internal/trials":   {"timeline", "record", "loadgen/faultserver", "correlate/model", "run", "run/exit", "run/saved", "run/spec", "cmd/lapse/internal/selftest"},

	"correlate/causes/connections": {"timeline", "correlate/causes/rule", "correlate/causes/evidence", "correlate/cluster", "correlate/model", "correlate/quantity"},
}

// The only packages that may know of Kubernetes.
var knowKubernetes = []string{"kube", "kube/kubetest", "watcher", "deploy", "deploy/agent", "preflight", "run", "run/access", "run/spec", "cmd/lapse"}

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

// mayNotBeLinked are packages that the program must do without, by their path's beginning, and why.
// docs/decisions/0008-a-client-of-few-kinds.md has the figures.
var mayNotBeLinked = map[string]string{
	"k8s.io/client-go/kubernetes":      "it registers every kind of every API group when the program starts: ask through lapse/kube",
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
