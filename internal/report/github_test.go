package report

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestGitHubReadsAsCommitted(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		golden(t, sample+".github.txt", render(t, "github", sample, Options{}))
	}
}

// One command a line: GitHub's runner reads commands at the beginning of a line, and the older ##[command] within it.
func TestNoTextFromOutsideIsAWorkflowCommand(t *testing.T) {
	ours := regexp.MustCompile(`^::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]*$`)
	for _, evil := range append(evils,
		"::error::x", "\n::set-env name=PATH::/evil\n", "\r::stop-commands::x\r", "::", "%0A::add-mask::a", "%", "x::error title=y::z",
		"##[error]x", " ##[add-path]/evil", "a,file=/etc/passwd,line=1::", "\u2028::error::x",
	) {
		tl := everywhere(evil)
		var out strings.Builder
		if err := GitHub(&out, tl, Options{}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 1+len(tl.Incidents) {
			t.Errorf("%q: %d lines, want one for the verdict and for each of %d incidents", evil, len(lines), len(tl.Incidents))
		}
		for _, line := range lines {
			if !ours.MatchString(line) || strings.Contains(line, "##[") {
				t.Errorf("%q gives %q", evil, line)
			}
		}
	}
}

func TestNoMoreAnnotationsThanGitHubShows(t *testing.T) {
	tl := samples["race"]()
	for range 30 {
		tl.Incidents = append(tl.Incidents, tl.Incidents[0])
	}
	var out strings.Builder
	if err := GitHub(&out, tl, Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != maxAnnotations {
		t.Errorf("%d annotations", n)
	}
}

func TestAnnotationsAreAsGraveAsTheVerdict(t *testing.T) {
	for sample, want := range map[string]string{"race": "error error", "clean": "notice", "inconclusive": "warning warning"} {
		var levels []string
		for line := range strings.Lines(string(render(t, "github", sample, Options{}))) {
			level, _, _ := strings.Cut(strings.TrimPrefix(line, "::"), " ")
			levels = append(levels, level)
		}
		if got := strings.Join(levels, " "); got != want {
			t.Errorf("%s: %q, want %q", sample, got, want)
		}
	}
}
