package schematest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/internal/report"
)

var update = flag.Bool("update", false, "rewrite the committed schema")

const published = "internal/report/timeline.schema.json"

func TestSchemaIsUpToDate(t *testing.T) {
	t.Chdir("../../..")
	want, err := generateSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(published, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go generate ./internal/report", published)
	}
}

func TestSchemaIsItselfValid(t *testing.T) {
	if _, err := compile(schemaText(t)); err != nil {
		t.Fatal(err)
	}
}

func TestSchemaDescribesEveryField(t *testing.T) {
	text := string(schemaText(t))
	for _, want := range []string{
		`"Nanoseconds"`, `"timeout_connect"`, `"terminating+serving"`, `- reused: sends on persistent connections`,
		`- refused: ECONNREFUSED`, `"undecided"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("schema does not say %s", want)
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ document, want string }{
		{`{`, "read document"},
		{`[]`, "got array, want object"},
		{`{"schemaVersion": 1}`, "missing properties"},
	} {
		err := Validate([]byte(test.document))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Validate(%s) = %v, want %q", test.document, err, test.want)
		}
	}
}

func TestSamplesFollowTheSchema(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		document, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(document); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func schemaText(t *testing.T) []byte {
	t.Helper()
	text, err := report.Schema()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
