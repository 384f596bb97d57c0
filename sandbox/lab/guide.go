package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// The field guide, docs/causes, shows of each cause what `lapse report` prints of one run of the lab. In a page, it
// stands between
//
//	<!-- lab SCENARIO -->
//	<!-- end -->
//
// and `<!-- lab SCENARIO result -->` takes only the result, without incidents and timeline.
var shown = regexp.MustCompile(`(?s)(<!-- lab (\S+)( result)? -->\n).*?(<!-- end -->\n)`)

// fillGuide writes what runs showed into the pages of a folder. A page keeps what it has of a scenario that was not
// played now.
func fillGuide(ctx context.Context, lapse, folder string, results []result) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(pages) == 0 {
		return errors.Join(err, fmt.Errorf("no pages in %s", folder))
	}
	for _, page := range pages {
		old, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text, err := fillPage(string(old), func(scenario string, whole bool) (string, error) {
			r := best(results, scenario)
			if r == nil {
				return "", nil
			}
			report, err := exec.CommandContext(ctx, lapse, "report", r.run.Dir).Output()
			if len(report) == 0 {
				return "", fmt.Errorf("report on %s: %w", r.run.Dir, err) // it exits as the gate says
			}
			return r.excerpt(string(report), whole), nil
		})
		if err != nil {
			return fmt.Errorf("fill %s: %w", page, err)
		}
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fillPage replaces what a page shows of each scenario, where there is something new.
func fillPage(page string, show func(scenario string, whole bool) (string, error)) (string, error) {
	var all error
	text := shown.ReplaceAllStringFunc(page, func(block string) string {
		part := shown.FindStringSubmatch(block)
		text, err := show(part[2], part[3] == "")
		all = errors.Join(all, err)
		if text == "" {
			return block
		}
		return part[1] + text + part[4]
	})
	return text, all
}

// best is the last run of a scenario in which all was as expected, else the last one; nil if it was not played.
func best(results []result, scenario string) (found *result) {
	for i := range results {
		r := &results[i]
		if r.scenario.Name != scenario || r.err != nil {
			continue
		}
		if found == nil || r.ok() && !found.ok() || r.ok() == found.ok() && r.Began.After(found.Began) {
			found = r
		}
	}
	return found
}

// excerpt is a run's report without the sections that tell nothing about the cause, and where it comes from.
func (r *result) excerpt(report string, whole bool) string {
	file, with := r.scenario.Name+".txtar", ""
	if r.scenario.original != "" {
		file, with = r.scenario.original+".txtar", " with the fix"
	}
	return fmt.Sprintf("[%s](../../sandbox/lab/scenarios/%s)%s, kube-proxy in %s mode, recorded by Lapse %s and judged by %s:\n\n```\n%s```\n",
		file, file, with, r.Mode, r.recorder, r.run.Timeline.Tool.Version, trim(report, whole))
}

var (
	labCommand = regexp.MustCompile(` ·\s+\S*/lab\s+await\s+\S+/gate`)
	labLane    = regexp.MustCompile(`\[ /[^\]\n]*\]`)
)

// trim keeps of a report the result, what was not observed, the incidents and the timeline. The command, which is the
// lab's own, becomes "steps".
func trim(report string, whole bool) string {
	var kept []string
	for i, section := range strings.Split(strings.Trim(report, "\n"), "\n\n") {
		title, _, _ := strings.Cut(strings.TrimSpace(section), " ")
		title, _, _ = strings.Cut(title, "\n")
		switch {
		case i == 0:
			section = labCommand.ReplaceAllString(section, "")
		case !whole, title != "INCIDENTS" && title != "UNOBSERVED" && title != "TIMELINE":
			continue
		}
		kept = append(kept, labLane.ReplaceAllStringFunc(section, func(lane string) string {
			return "[ steps " + strings.Repeat("─", max(0, len([]rune(lane))-len("[ steps  ]"))) + " ]"
		}))
	}
	return strings.Join(kept, "\n\n") + "\n"
}
