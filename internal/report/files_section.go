package report

import "lapse/internal/report/document"

// filesSection says where the run is kept.
func filesSection(v *view) document.Section {
	if v.RunDir == "" {
		return document.Section{}
	}
	return document.Section{Title: "files", Tight: true, Blocks: []document.Block{
		document.Note{Text: v.RunDir, Verbatim: true, After: "(as a page: lapse serve " + v.RunDir + ")"},
	}}
}
