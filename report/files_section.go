package report

// filesSection says where the run is kept.
func filesSection(v *view) section {
	if v.RunDir == "" {
		return section{}
	}
	return section{title: "files", tight: true, blocks: []block{note{text: v.RunDir, verbatim: true, after: "(as a page: lapse serve " + v.RunDir + ")"}}}
}
