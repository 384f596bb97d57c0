package engine

import (
	"fmt"
	"testing"
)

// A name that replies have at times keeps its number. One that none has had for long gets another, which no name has
// that replies have, and it is said again what the number means.
func TestNamesThatAreNotUsedAreForgotten(t *testing.T) {
	var b backends
	often := b.id([]byte("often"))
	once := b.id([]byte("once"))
	b.Take()
	for range 3 {
		b.Forget()
		if id := b.id([]byte("often")); id != often {
			t.Errorf("a name in use has number %d, then %d", often, id)
		}
	}
	if id := b.id([]byte("once")); id == once || id == often {
		t.Errorf("a name that was not used has number %d again", id)
	}
	if taken := b.Take(); len(taken) != 1 || taken[0].Name != "once" {
		t.Errorf("said again: %v", taken)
	}
	b.Forget()
	if id := b.id([]byte("once")); id == 0 || len(b.Take()) != 0 {
		t.Error("a name that was used lately is said again")
	}
}

// More names than there are numbers come, one after the other. Each has a number of its own while it is used.
func TestNumbersAreGivenAgain(t *testing.T) {
	var b backends
	stays := b.id([]byte("stays"))
	for n := range 70_000 {
		if n%1000 == 0 {
			b.Forget()
		}
		name := fmt.Sprint("web-", n)
		id, again := b.id([]byte(name)), b.id([]byte("stays"))
		if id == 0 || id == stays || again != stays || id != b.id([]byte(name)) {
			t.Fatalf("name %d has number %d; another has %d, then %d", n, id, stays, again)
		}
		b.Take()
	}
}

// While all numbers are taken, a new name has none.
func TestWhileAllNumbersAreTakenNamesHaveNone(t *testing.T) {
	var b backends
	for n := range 65535 {
		if b.id([]byte(fmt.Sprint(n))) == 0 {
			t.Fatalf("name %d has no number", n)
		}
	}
	if id := b.id([]byte("one more")); id != 0 {
		t.Errorf("one more has number %d", id)
	}
	b.Forget()
	if id := b.id([]byte("one more")); id != 0 {
		t.Errorf("one more has number %d, that of a name that was used lately", id)
	}
	b.Forget()
	if b.id([]byte("one more")) == 0 {
		t.Error("one more has no number, though all others were forgotten")
	}
}
