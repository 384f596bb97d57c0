package main

import (
	"context"
	"regexp"
	"strings"
)

// An action does what a step says.
type action func(ctx context.Context, p *play) error

// words are what follows a verb.
type words []string

func (w words) rest() string { return strings.Join(w, " ") }

// is reports whether the words match a pattern, in which a word in capital letters stands for any word.
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
