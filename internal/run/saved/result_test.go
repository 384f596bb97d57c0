package saved

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/hint"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/timeline"
)

// A recording of another version is none that the user named by mistake.
func TestARecordingOfAnotherVersionIsNoUsageError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FactsFile)
	for _, version := range []byte{2, 200} {
		if err := os.WriteFile(path, append([]byte("LAPSE\x1a\n"), version), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, correlate.Options{}, nil); exit.CodeOf(err) != exit.Internal || hint.Of(err) == "" {
			t.Errorf("version %d: %v, hint %q, exit code %d", version, err, hint.Of(err), exit.CodeOf(err))
		}
	}
}

// A timeline lists the first 10,000 failed requests.
func TestAnExportOfATimelineSaysHowManyFailedRequestsItHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), TimelineFile)
	csv, _ := report.FormatNamed(report.Formats, "csv")
	failed := model.Failure{Target: "web new", Class: timeline.Refused}
	for leftOut, want := range map[int]string{
		0:       "exported only the failed requests: ",
		119_998: "exported only the first 2 of 120000 failed requests: ",
	} {
		tl := model.Timeline{SchemaVersion: model.SchemaVersion, Failures: []model.Failure{failed, failed},
			FailuresTruncated: leftOut}
		var file bytes.Buffer
		if err := report.JSON(&file, &tl, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Export(io.Discard, path, "", csv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d left out: %v, want %q", leftOut, err, want)
		}
	}
}
