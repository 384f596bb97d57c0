package rule

import (
	"fmt"
)

// This file is how sentences name Pods and count.

// MostNamed is how many Pods a sentence names.
const MostNamed = 6

// Number writes a small number within a sentence.
func Number(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

// Every returns all of n replicas.
func Every(n int) string {
	if n == 2 {
		return "both replicas"
	}
	return fmt.Sprintf("all %d replicas", n)
}
