package wording

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says of the wrapped command what it was, and how it failed.

// mostCommand is how many characters of the wrapped command a headline has.
const mostCommand = 40

// during says what the run was wrapped around, and whether requests failed while it ran, before or after: " while
// kubectl drain node1 ran"; "" if there was no command.
func during(tl *model.Timeline) string {
	c := tl.Run.Command
	if c == nil || c.Start == nil {
		return ""
	}
	text := strings.Join(c.Args, " ")
	if runes := []rune(text); len(runes) > mostCommand {
		text = strings.TrimSpace(string(runes[:mostCommand-1])) + "…"
	}
	var before, meanwhile, after bool
	for i := range tl.Windows {
		w := &tl.Windows[i]
		if w.FailedFrom == nil || w.FailedTo == nil {
			continue
		}
		before = before || *w.FailedFrom < *c.Start
		after = after || c.End != nil && *w.FailedTo > *c.End
		meanwhile = meanwhile || *w.FailedTo >= *c.Start && (c.End == nil || *w.FailedFrom <= *c.End)
	}
	switch {
	case before && meanwhile && after:
		return " while " + text + " ran, before and afterwards"
	case before && meanwhile:
		return " while " + text + " ran and before"
	case before && after:
		return " before and after " + text + " ran"
	case before:
		return " before " + text + " ran"
	case meanwhile && after:
		return " while " + text + " ran and afterwards"
	case after:
		return " after " + text + " had ended"
	}
	return " while " + text + " ran"
}

// commandFailure says how the wrapped command failed; "" if it did not.
func commandFailure(tl *model.Timeline) string {
	if c := tl.Run.Command; c != nil && !tl.Run.Live && c.ExitCode != nil && *c.ExitCode != 0 {
		return fmt.Sprintf("failed (exit code %d)", *c.ExitCode)
	}
	return ""
}

// withCommand leads with a command that failed, if nothing else did: then it did not do what was to be measured.
func withCommand(tl *model.Timeline, text string) string {
	end := commandFailure(tl)
	switch {
	case end == "":
		return text
	case tl.Verdict.Failed > 0:
		return text + "; the command " + end
	}
	return "the command " + end + "; " + text
}

// maxLastWords is how many lines of a failed command's output a report repeats.
const maxLastWords = 3

// LastWords returns the last different lines that the wrapped command wrote.
func LastWords(tl *model.Timeline) []string {
	var said []string
	for i := range slices.Backward(tl.Events) {
		line := strings.TrimSpace(tl.Events[i].Detail)
		if tl.Events[i].Kind != timeline.CommandOutput || line == "" || slices.Contains(said, line) {
			continue
		}
		if said = append(said, line); len(said) == maxLastWords {
			break
		}
	}
	slices.Reverse(said)
	return said
}
