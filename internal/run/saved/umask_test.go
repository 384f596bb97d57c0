package saved

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"lapse/correlate/model"
	"lapse/internal/record"
)

// umask is the environment variable by which this test's binary writes files under another umask.
const umask = "LAPSE_TEST_UMASK"

func init() {
	if mask, err := strconv.ParseInt(os.Getenv(umask), 8, 0); err == nil {
		syscall.Umask(int(mask))
		rec, err := record.Create(FactsFile)
		if err == nil {
			err = rec.Close()
		}
		err = errors.Join(err, WriteTimeline(".", &model.Timeline{}), writeFile("report.html", func(io.Writer) error { return nil }))
		err = errors.Join(err, writeFile("report.html", func(io.Writer) error { return nil })) // replaced
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func TestTheUmaskAppliesToEveryFile(t *testing.T) {
	for mask, want := range map[string]fs.FileMode{"077": 0o600, "027": 0o640, "022": 0o644, "0": 0o644} {
		dir := t.TempDir()
		writer := exec.CommandContext(t.Context(), os.Args[0])
		writer.Dir, writer.Env = dir, append(os.Environ(), umask+"="+mask)
		if out, err := writer.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, name := range []string{FactsFile, TimelineFile, "report.html"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %s: %s has mode %o, want %o", mask, name, info.Mode().Perm(), want)
			}
		}
	}
}
