package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Answers are taken in the order of their queries, however they arrive.
func TestLateDNSAnswersChangeNothing(t *testing.T) {
	var n names
	ms := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	n.note("a", "web.", ms(0), ms(1), []byte("x"), nil)
	n.note("a", "web.", ms(10), ms(11), []byte("x"), nil)
	n.note("a", "web.", ms(30), ms(31), []byte("y"), nil)
	n.note("a", "web.", ms(20), ms(32), []byte("x"), nil) // late
	n.note("a", "web.", ms(25), ms(125), nil, nil)
	n.note("b", "web.", ms(31), ms(33), []byte("x"), nil)
	n.note("a", "web.", ms(40), ms(41), []byte("y"), nil)
	n.note("c", "web.", ms(0), ms(1), []byte("x"), nil)
	n.note("c", "web.", ms(10), ms(60), []byte("y"), nil)
	// both were sent before an answer came: it may be the older one
	n.note("c", "web.", ms(50), ms(61), []byte("x"), nil)
	n.note("c", "web.", ms(70), ms(71), []byte("y"), nil)
	n.note("c", "web.", ms(80), ms(81), []byte("x"), nil)
	var got []string
	for _, e := range n.Take() {
		got = append(got, fmt.Sprintf("%s %s %v-%v %d of %d", e.Object.Name, e.Detail, e.Since, e.Seen,
			e.Lookup.Answered, e.Lookup.Asked))
	}
	want := []string{"a x 0s-1ms 1 of 1", "a y 10ms-31ms 3 of 3", "b x 31ms-33ms 1 of 1", "c x 0s-1ms 1 of 1", "c y 0s-60ms 2 of 2", "c x 70ms-81ms 5 of 5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
