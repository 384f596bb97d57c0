package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Any text is refused with an error, or is a timeline that is written and read again without a change.
func FuzzTimelinesReadBack(f *testing.F) {
	for _, name := range []string{"clean.json", "aborted.json", "two-services.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"schemaVersion":2,"targets":null,"windows":[{}],"verdict":{"latencyP99":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tl, err := ReadJSON(bytes.NewReader(text))
		if err != nil {
			return
		}
		var written strings.Builder
		if JSON(&written, tl, Options{}) != nil {
			return // such as a year after 9999
		}
		again, err := ReadJSON(strings.NewReader(written.String()))
		if err != nil {
			t.Fatalf("%v, of what was written:\n%s", err, written.String())
		}
		var twice strings.Builder
		if err := JSON(&twice, again, Options{}); err != nil || twice.String() != written.String() {
			t.Errorf("%v: written\n%s\nand then\n%s", err, written.String(), twice.String())
		}
	})
}
