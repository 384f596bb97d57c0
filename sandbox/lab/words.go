package main

import (
	"context"
	"regexp"
	"strings"
)

// An action does what a step says.
type action func(ctx context.Context, p *play) error

// words are those behind a verb.
type words []string

func (w words) rest() string { return strings.Join(w, " ") }

// is reports whether the words are those of the pattern, where a word in capital letters stands for any.
func (w words) is(pattern string) bool {
	want := strings.Fields(pattern)
	if len(want) != len(w) {
		return false
	}
	for i := range want {
		if want[i] != strings.ToUpper(want[i]) && want[i] != w[i] {
			return false
		}
	}
	return true
}

var nodeName = regexp.MustCompile(`^node[0-9]+$`)

func isNode(word string) bool { return nodeName.MatchString(word) }
