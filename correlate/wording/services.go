package wording

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
)

// This file names the Services and URLs of a run.

// subject names what was measured: "shop/web: "; "" if that is more than one thing.
func subject(tl *model.Timeline) string {
	services := map[string]bool{}
	for _, s := range tl.Run.Services {
		services[s.Namespace+"/"+s.Name] = true
	}
	for _, url := range tl.Run.URLs {
		services[url] = true
	}
	if len(services) != 1 {
		return ""
	}
	for name := range services {
		return name + ": "
	}
	return ""
}

// several reports whether a run has more than one Service or URL, so that each line names its own.
func several(tl *model.Timeline) bool {
	return (len(tl.Run.Services) > 0 || len(tl.Run.URLs) > 1) && subject(tl) == ""
}

// ofService begins a sentence with the Services of its targets, where the run has several.
func (s *scene) ofService(targets []string, text string) string {
	if !several(s.tl) {
		return text
	}
	var names []string
	for _, target := range targets {
		t := s.targets[target]
		if t == nil {
			continue
		}
		if name := t.Receiver(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - 3; more > 0 {
		names = append(names[:3:3], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ") + ": " + text
}
