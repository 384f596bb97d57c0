package cli

import (
	"bytes"
	"strings"
	"testing"

	"lapse/internal/run/version"
)

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("index out of range") }

// Exit code 2, which Go's runtime ends with, says that nothing was measured.
func TestAPanicIsSaidToBeABug(t *testing.T) {
	var said bytes.Buffer
	if code := Main(t.Context(), []string{"lapse", "--version"}, panicking{}, &said); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"lapse: this is a bug in Lapse: index out of range", "bug_test.go", "hint: please report it", version.Version, "`lapse report DIR`"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &said)
		}
	}
}
