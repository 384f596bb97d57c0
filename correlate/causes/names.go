package causes

import (
	"fmt"
)

// This file is how sentences name Pods and count.

// mostNamed is how many Pods a sentence names.
const mostNamed = 6

// number writes a small number within a sentence.
func number(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

// every returns all of n replicas.
func every(n int) string {
	if n == 2 {
		return "both replicas"
	}
	return fmt.Sprintf("all %d replicas", n)
}
