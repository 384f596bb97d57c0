package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

var githubFormat = Format{
	Name:  "github",
	Doc:   "annotations for a step of GitHub Actions: the verdict, and each incident",
	Ext:   "txt",
	Write: judgedBy(GitHub),
}

// maxAnnotations is how many annotations of a kind GitHub shows for a step. The verdict is one of them.
// https://docs.github.com/en/rest/checks/runs
const maxAnnotations = 10

// GitHub writes workflow commands: an annotation for the verdict, and one for each of the worst incidents. Incidents
// are errors if a gate failed, else warnings. Text from outside cannot end a command or begin another one.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
func GitHub(w io.Writer, tl *model.Timeline, _ Options) error {
	said := slices.Concat([]string{tl.Said.Headline, tl.Said.Extent}, texts(tl.Said.Caveats), []string{tl.Said.Exit})
	lines := annotation(verdictLevel(tl), "Lapse: "+tl.Said.Word, said)
	level := "warning"
	if anyGate(tl, model.GateFail) {
		level = "error"
	}
	all := model.MostHarmful(tl.Incidents)
	for _, in := range all[:min(len(all), maxAnnotations-1)] {
		lines += annotation(level, in.Said.Headline, answerLines(&in.Said))
	}
	_, err := io.WriteString(w, lines)
	return err
}

func verdictLevel(tl *model.Timeline) string {
	switch tl.Verdict.ExitCode {
	case 0:
		return "notice"
	case 4:
		return "warning"
	}
	return "error"
}

// annotation returns a workflow command that shows lines under a title.
func annotation(level, title string, lines []string) string {
	property := inData.Replace(document.Clean(title))
	property = strings.NewReplacer(":", "%3A", ",", "%2C").Replace(property)
	return fmt.Sprintf("::%s title=%s::%s\n", level, property, inData.Replace(cleanLines(lines)))
}

// inData escapes the data of a workflow command.
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
var inData = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
