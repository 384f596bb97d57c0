package report

import (
	"slices"

	"lapse/internal/report/document"
)

// notCoveredSection lists what a pass of this run says nothing of, because of what its Services are and of how they
// were asked. What is said of several is said once.
func notCoveredSection(v *view) document.Section {
	var sentences []string
	of := map[string][]string{}
	for _, s := range v.Run.Services {
		for _, sentence := range s.NotCovered {
			if of[sentence] == nil {
				sentences = append(sentences, sentence)
			}
			of[sentence] = append(of[sentence], s.Namespace+"/"+s.Name)
		}
	}
	s := document.Section{Title: "not covered", Remark: "by a pass of this run"}
	for _, sentence := range sentences {
		n := document.Note{Text: document.Clean(sentence), Tone: document.Dim}
		if len(v.Run.Services) > 1 {
			n.Label = listed(slices.Compact(slices.Sorted(slices.Values(of[sentence]))))
		}
		s.Blocks = append(s.Blocks, n)
	}
	return s
}
