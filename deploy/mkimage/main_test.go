package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArgumentsMustSayOneKindOfImage(t *testing.T) {
	dir := t.TempDir()
	root, out := filepath.Join(dir, "root.tar"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(root, bytes.Repeat([]byte{0}, 1024), 0o644); err != nil { // an empty tar
		t.Fatal(err)
	}
	if err := run([]string{"-name", "debian:nginx", "-user", "0", "-files", root, "-o", out}, t.Output()); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(out); err != nil || !bytes.Contains(saved, []byte(`"debian:nginx"`)) {
		t.Errorf("no image of that name in the tar: %v", err)
	}
	for want, args := range map[string][]string{
		"usage":            {"-name", "test:y", "-o", out, "-entrypoint", "/x", "-files", root},
		"usage: ":          {"-name", "test:y", "-o", out, "-files", root, "binary"},
		"with a tag":       {"-name", "pause", "-o", out, "-files", root},
		"with a tag, such": {"-name", "localhost:5000/a", "-o", out, "-files", root},
		"no such file":     {"-name", "test:y", "-o", out, "-entrypoint", "/x", "/nowhere"},
		"Linux program":    {"-name", "test:y", "-o", out, "-entrypoint", "/x", root},
	} {
		if err := run(args, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
	if err := run([]string{"-name", "test:y", "-files", root, "-o", filepath.Join(dir, "no", "folder")}, t.Output()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
