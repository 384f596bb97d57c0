package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := File(path, 1<<20)
		if tooLong := size > 1<<20; tooLong != (err != nil) || !tooLong && len(data) != size {
			t.Errorf("%d bytes: %d are read, %v", size, len(data), err)
		}
	}
}

func TestADeviceWithoutEndIsRefused(t *testing.T) {
	for _, path := range []string{"/dev/zero", "/dev/urandom"} {
		_, err := File(path, 1<<20)
		if err == nil || !strings.Contains(err.Error(), path+" has more than 1 MiB") {
			t.Errorf("%v", err)
		}
	}
}

func TestAPipeIsReadToItsEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() { _, _ = w.WriteString("certificates"); w.Close() }()
	if data, err := All(r, "the pipe", 1<<20); err != nil || string(data) != "certificates" {
		t.Errorf("%q, %v", data, err)
	}
}
