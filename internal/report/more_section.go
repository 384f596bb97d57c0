package report

import (
	"path/filepath"

	"lapse/internal/report/document"
)

// moreSection says how good the measurement was, what was measured, and where the rest is.
func moreSection(v *view) document.Section {
	s := document.Section{Blocks: []document.Block{
		document.Note{Label: "measured", Text: v.Said.Measured},
		document.Note{Label: "run     ", Text: measured(v.Timeline), Tone: document.Dim},
	}}
	switch {
	case v.RunDir == "":
	case v.screen:
		s.Blocks = append(s.Blocks, document.Note{
			Label:    "more    ",
			Text:     "lapse report DIR -v · lapse serve DIR",
			Verbatim: true,
			After:    "DIR = " + v.RunDir,
		})
	default: // a document is read elsewhere
		s.Blocks = append(s.Blocks, document.Note{Label: "kept as", Text: filepath.Base(v.RunDir), Verbatim: true})
	}
	return s
}
