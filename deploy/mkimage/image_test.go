package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func staticBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "prog")
	build := exec.Command("go", "build", "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// buildImage returns the path of the tar.
func buildImage(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	args = append(args, "-name", "lapse:dev", "-entrypoint", "/bin/lapse", "-o", out, binary)
	if err := run(args, t.Output()); err != nil {
		t.Fatal(err)
	}
	return out
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s: time %v, uid %d would differ from machine to machine", header.Name, header.ModTime, header.Uid)
		}
		files[header.Name], _ = io.ReadAll(r)
	}
}

func TestImageIsTheSameBytesEveryTime(t *testing.T) {
	binary := staticBinary(t)
	var images [2][]byte
	for i := range images {
		var err error
		if images[i], err = os.ReadFile(buildImage(t, binary)); err != nil {
			t.Fatal(err)
		}
	}
	untar(t, bytes.NewReader(images[0]))
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of one binary differ")
	}
}

func TestTheTarIsAValidImage(t *testing.T) {
	out := buildImage(t, staticBinary(t), "-user", "1000")
	packed, err := tarball.ImageFromPath(out, new(name.MustParseReference("lapse:dev").(name.Tag)))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(packed); err != nil { // every digest and size
		t.Error(err)
	}
	config, err := packed.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "amd64" || config.OS != "linux" || config.Config.User != "1000" || config.Config.Entrypoint[0] != "/bin/lapse" {
		t.Errorf("configuration %+v", config)
	}
	layers, err := packed.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files := untar(t, content)
	if len(files["bin/lapse"]) == 0 {
		t.Error("no binary in the layer")
	}
	if _, ok := files["tmp/"]; !ok {
		t.Error("no /tmp for a program that is not root")
	}
}

func TestAWholeFileSystemIsPackedAsItIs(t *testing.T) {
	dir := t.TempDir()
	root, out := filepath.Join(dir, "root.tar"), filepath.Join(dir, "image.tar")
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := add(w, tar.Header{Typeflag: tar.TypeReg, Name: "usr/sbin/nginx", Mode: 0o755}, []byte("nginx")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(root, files.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-name", "debian:nginx", "-user", "0", "-files", root, "-o", out}, t.Output()); err != nil {
		t.Fatal(err)
	}
	packed, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := packed.ConfigFile()
	if err != nil || config.Config.Entrypoint != nil || config.Config.User != "0" {
		t.Errorf("configuration %+v, error %v", config, err)
	}
	if err := validate.Image(packed); err != nil {
		t.Error(err)
	}
	layers, err := packed.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if got := untar(t, content); len(got) != 1 || string(got["usr/sbin/nginx"]) != "nginx" {
		t.Errorf("files %q", got)
	}
	for _, args := range [][]string{{"-entrypoint", "/x", "-files", root}, {"-files", root, "binary"}} {
		err := run(append([]string{"-name", "x:y", "-o", out}, args...), t.Output())
		if err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: error %v, want the usage", args, err)
		}
	}
}

func TestWhatCannotRunInAnEmptyImageIsRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755)
	for want, binary := range map[string]string{"not a Linux program": script, "not static": "/bin/ls", "no such file": "/nowhere"} {
		err := run([]string{"-name", "x:y", "-entrypoint", "/x", "-o", filepath.Join(t.TempDir(), "o"), binary}, t.Output())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", binary, err, want)
		}
	}
}

func TestNamesAndPathsMustBeWhole(t *testing.T) {
	for _, bad := range []image{{Name: "lapse", Entrypoint: "/x"}, {Name: "a:b", Entrypoint: "x"}, {Name: "localhost:5000/a", Entrypoint: "/x"}} {
		if bad.validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
