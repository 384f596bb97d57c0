package manifest

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite what is read in testdata")

// Each file of testdata/reading is a case: files of a repository, what is read of them, what is wrong with them and
// what is noted. Its first line says what it shows, and the second, if there is one, what is read instead of ".".
func TestReading(t *testing.T) {
	cases, err := filepath.Glob("testdata/reading/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			last := len(archive.Files) - 1
			want := &archive.Files[last]
			dir, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			var in []byte
			for _, f := range archive.Files[:last] {
				if f.Name == "stdin" {
					in = f.Data
					continue
				}
				writeFile(t, f.Name, strings.NewReplacer("\\t", "\t", "\\r", "\r").Replace(string(f.Data)))
			}
			paths := []string{"."}
			if lines := strings.Split(string(archive.Comment), "\n"); len(lines) > 1 && lines[1] != "" {
				paths = strings.Fields(lines[1])
			}
			got := readingOf(Read(paths, strings.NewReader(string(in)), Warn, Annotation{}))
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(dir, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := gocmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("%s(-want +got)\n%s", archive.Comment, diff)
			}
		})
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readingOf is what was read, in lines.
func readingOf(m *Manifests) string {
	var b strings.Builder
	for _, s := range m.services() {
		place, _ := m.Place("Service", s.Namespace, s.Name, "spec.selector")
		b.WriteString("Service/" + s.Name + " at " + place.String() + "\n")
	}
	for _, p := range m.Problems {
		kind := "problem"
		if p.Warning {
			kind = "warning"
		}
		b.WriteString(kind + " " + p.String() + "\n")
	}
	for _, note := range m.Notes() {
		b.WriteString("note " + note + "\n")
	}
	return b.String()
}

// The documents of a file in UTF-16, as Windows' shells write it, cannot be told apart by their bytes.
func TestAFileInUTF16IsRefused(t *testing.T) {
	text := utf16.Encode([]rune("\ufeffkind: Service\n---\nkind: Service\n"))
	for name, order := range map[string]binary.AppendByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian} {
		var data []byte
		for _, unit := range text {
			data = order.AppendUint16(data, unit)
		}
		err := Read([]string{"-"}, bytes.NewReader(data), Strict, Annotation{}).Err()
		if err == nil || !strings.Contains(err.Error(), "save it as UTF-8") {
			t.Errorf("%s endian: %v", name, err)
		}
	}
}
