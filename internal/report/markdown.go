package report

import (
	"io"

	"lapse/correlate/model"
)

var markdownFormat = Format{
	Name:  "markdown",
	Doc:   "a summary for a pull request or a pipeline's step, at most 60 KB",
	Ext:   "md",
	Write: judgedBy(Markdown),
	Diff:  diffMarkdown,
}

// Markdown renders the summary for a comment on a pull request or for the summary of a pipeline's
// step: the verdict first, and never more than 60 KB, whatever the run. Text from outside is only text.
func Markdown(w io.Writer, tl *model.Timeline, opts Options) error {
	_, err := w.Write(summaryOf(tl, opts, documentNames).Markdown())
	return err
}
