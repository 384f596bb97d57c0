package lapse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readClock are the only places of the packages that measure and judge where the time is read past timeline.Clock, each
// with its reason. What they read keeps its monotonic part, so a step of the wall clock moves none of them.
var readClock = map[string]string{
	"timeline/clock.go time.Now":                    "the clock's zero",
	"timeline/clock.go time.Since":                  "the clock itself",
	"loadgen/internal/wire/ports.go time.Now":       "how long a local port rests, compared with nothing but itself",
	"internal/run/spec/options.go time.Now":         "the name of a run",
	"internal/run/live/live.go time.Now":            "when the run was last judged, and for how long, compared with nothing but itself",
	"internal/run/live/live.go time.Since":          "when the run was last judged, and for how long, compared with nothing but itself",
	"internal/run/screen/folder.go time.Now":        "which day it is, of runs that have ended",
	"internal/run/screen/page.go time.Now":          "when somebody looked at the page, compared with nothing but itself",
	"internal/run/screen/page.go time.Since":        "when somebody looked at the page, compared with nothing but itself",
	"internal/run/precheck/preflight.go time.Now":   "when preflight reads manifests or a cluster, which is no run",
	"internal/run/precheck/preflight.go time.Since": "how long that took",
	"internal/cli/gate.go time.Now":                 "how long the gate is awaited, compared with nothing but itself",
	"internal/cli/gate.go time.Since":               "how long the gate is awaited, compared with nothing but itself",
	"internal/run/workstation/runclock.go time.Now": "whether the wall clock went on while the monotonic one stood still",

	"loadgen/internal/polled/reader.go time.Now": "the wall clock beside the run's, which the kernel's stamps are placed by",
	"loadgen/pacing.go time.Now":                 "how long a short wait has lasted, compared with nothing but itself",
	"loadgen/pacing.go time.Since":               "how long a short wait has lasted, compared with nothing but itself",
	"loadgen/hey/cpu.go time.Now":                "the length of a closed-loop step, which is no fact of a run",
	"loadgen/hey/cpu.go time.Since":              "the length of a closed-loop step, which is no fact of a run",
	"loadgen/hey/calibrate.go time.Until":        "how much of a load test's time is left, which is no run",
	"internal/trials/stalled.go time.Now":        "how long another process is left stopped",
	"internal/trials/stalled.go time.Since":      "how long another process is left stopped",
}

// Instants come from the run's clock, which no step of the wall clock moves. Each reason is still needed.
func TestTimeIsReadFromTheClock(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"timeline", "internal/record", "loadgen", "watcher", "correlate", "internal/report", "internal/run", "internal/cli", "internal/selftest", "internal/trials", "cmd/lapse"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path == "loadgen/bench" || path == "loadgen/faultserver": // neither is part of a run
				return filepath.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			for _, use := range clockReads(t, path) {
				found[path+" "+use] = true
				if readClock[path+" "+use] == "" {
					t.Errorf("%s uses %s: take the time from the run's timeline.Clock, or name the reason in readClock", path, use)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for use := range readClock {
		if !found[use] {
			t.Errorf("readClock names %s, which is not there", use)
		}
	}
}

// clockReads lists the functions of package time used in a file that read a clock, or take the monotonic part off a
// reading.
func clockReads(t *testing.T, path string) (uses []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, spec := range file.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); imported == "time" {
			if name = "time"; spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && name != "" {
			pkg, ok := sel.X.(*ast.Ident)
			if ok && pkg.Name == name && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
				uses = append(uses, "time."+sel.Sel.Name)
			}
		}
		return true
	})
	return uses
}
