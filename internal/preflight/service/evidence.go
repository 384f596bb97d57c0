package service

import (
	"maps"
	"slices"
	"strings"
)

// Evidence is one fact that a prediction rests on.
type Evidence struct {
	Object string `json:"object"` // such as Deployment/web
	Field  string `json:"field"`  // such as spec.strategy.type
	Value  string `json:"value"`
}

func (e Evidence) String() string { return e.Object + ": " + e.Field + " = " + Shown(e.Value) }

// longest is how many characters of a value are shown: a command can be a script.
const longest = 160

// Shown returns a value as people see it: in one line, and cut if it is long.
func Shown(value string) string {
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + " …"
	}
	return strings.Join(strings.Fields(value), " ")
}

// LabelText returns labels as kubectl takes them: app=web,tier=front.
func LabelText(set map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(set)) {
		all = append(all, key+"="+set[key])
	}
	return strings.Join(all, ",")
}
