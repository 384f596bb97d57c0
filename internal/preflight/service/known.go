package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/internal/hint"
)

// Lacks returns why a fact is missing, "" if it is known.
func (s *State) Lacks(f Fact) string {
	switch f {
	case TemplatesFact:
		if len(s.Selected()) > 0 {
			return ""
		}
		return cmp.Or(s.Missing[PodsFact], s.Missing[WorkloadsFact], s.selectsNothing())
	case ReplicasFact:
		if s.Missing[EndpointsFact] == "" {
			return ""
		}
		if why := s.Lacks(TemplatesFact); why != "" {
			return why
		}
		if n, evidence := s.Count(); !n.Known() && n.Least < 2 {
			return "how many Pods there will be is not known (" + evidence[0].String() + ")"
		}
		return ""
	}
	return s.Missing[f]
}

// selectsNothing explains that the Service selects no known Pod: which labels are missing, and what was not read.
func (s *State) selectsNothing() string {
	text := "nothing that was read has the labels " + LabelText(s.Service.Spec.Selector)
	for i := range s.Others {
		w := &s.Others[i]
		is := w.Selected(s.Service)
		if is.beyond != "" {
			text += fmt.Sprintf("; %s makes no Pod with %s", w.Object(), is.beyond)
		}
		if len(is.lacking) > 0 {
			lacking := strings.Join(is.lacking, ", ")
			text += fmt.Sprintf("; %s lacks %s, and who sets it on its Pods is not known", w.Object(), lacking)
		}
	}
	if len(s.Unread) > 0 {
		text += "; not read: " + strings.Join(s.Unread, ", ")
	}
	return text
}

// LacksAny returns why the first missing fact of several is missing, "" if all are known.
func (s *State) LacksAny(facts []Fact) string {
	for _, f := range facts {
		if why := s.Lacks(f); why != "" {
			return why
		}
	}
	return ""
}

// Knows reports whether a fact is known.
func (s *State) Knows(f Fact) bool { return s.Lacks(f) == "" }

// CheckNode returns an error if the node to drain is surely not in the cluster. It adds a note if the Service has no
// endpoint there.
func (s *State) CheckNode() error {
	if s.Node == "" {
		return nil
	}
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if s.Knows(NodesFact) && !slices.Contains(names, s.Node) {
		return hint.Errorf("it has "+strings.Join(names, ", "), "the cluster has no node %q", s.Node)
	}
	if s.Knows(EndpointsFact) && s.ByNode()[s.Node] == 0 {
		note := fmt.Sprintf("no ready endpoint is on %s: a drain of it would not test the Service", s.Node)
		s.Notes = append(s.Notes, note)
	}
	return nil
}
