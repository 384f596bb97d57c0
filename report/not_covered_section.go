package report

import (
	"slices"
)

// notCoveredSection lists what a pass of this run says nothing of, because of what its Services are and of how they were asked. What is said of several is said once.
func notCoveredSection(v *view) section {
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
	s := section{title: "not covered", remark: "by a pass of this run"}
	for _, sentence := range sentences {
		n := note{text: clean(sentence), tone: dim}
		if len(v.Run.Services) > 1 {
			n.label = listed(slices.Compact(slices.Sorted(slices.Values(of[sentence]))))
		}
		s.blocks = append(s.blocks, n)
	}
	return s
}
