package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

func buildImage(t *testing.T, binary string, args ...string) map[string][]byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	args = append(args, "-name", "lapse:dev", "-entrypoint", "/bin/lapse", "-o", out, binary)
	if err := run(args, t.Output()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, data)
	files[""] = data
	return files
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
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

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestImageIsTheSameBytesEveryTime(t *testing.T) {
	binary := staticBinary(t)
	if !bytes.Equal(buildImage(t, binary)[""], buildImage(t, binary)[""]) {
		t.Error("two images of one binary differ")
	}
}

func TestEveryDigestIsTrue(t *testing.T) {
	for name, data := range buildImage(t, staticBinary(t)) {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("%s has other content", name)
		}
	}
}

// Docker reads manifest.json, containerd index.json; both must lead to the same layer and configuration.
func TestBothFormatsLeadToTheSameImage(t *testing.T) {
	files := buildImage(t, staticBinary(t), "-user", "1000")
	docker := decode[[]struct {
		Config           string
		RepoTags, Layers []string
	}](t, files["manifest.json"])[0]
	type descriptor struct {
		Digest      string
		Size        int
		Annotations map[string]string
	}
	index := decode[struct{ Manifests []descriptor }](t, files["index.json"]).Manifests[0]
	blobOf := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	manifest := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, files[blobOf(index)])
	if blobOf(manifest.Config) != docker.Config || blobOf(manifest.Layers[0]) != docker.Layers[0] {
		t.Error("index.json and manifest.json name different content")
	}
	if got := index.Annotations["io.containerd.image.name"]; got != "docker.io/library/lapse:dev" || docker.RepoTags[0] != "lapse:dev" {
		t.Errorf("names %q and %q", got, docker.RepoTags[0])
	}
	config := decode[struct {
		Architecture string
		Config       struct {
			Entrypoint []string
			User       string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}](t, files[docker.Config])
	if config.Architecture != "amd64" || config.Config.User != "1000" || config.Config.Entrypoint[0] != "/bin/lapse" {
		t.Errorf("configuration %+v", config)
	}
	if config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Error("the uncompressed layer is not its own diff ID")
	}
	layer := untar(t, files[docker.Layers[0]])
	if len(layer["bin/lapse"]) == 0 {
		t.Error("no binary in the layer")
	}
	if _, ok := layer["tmp/"]; !ok {
		t.Error("no /tmp for a program that is not root")
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

func TestNamesAreCompletedAsDockerDoes(t *testing.T) {
	for name, want := range map[string]string{
		"lapse:dev":               "docker.io/library/lapse:dev",
		"me/lapse:dev":            "docker.io/me/lapse:dev",
		"ghcr.io/me/lapse:dev":    "ghcr.io/me/lapse:dev",
		"localhost:5000/lapse:v1": "localhost:5000/lapse:v1",
	} {
		if got := fullName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, bad := range []image{{Name: "lapse", Entrypoint: "/x"}, {Name: "a:b", Entrypoint: "x"}, {Name: "localhost:5000/a", Entrypoint: "/x"}} {
		if bad.validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
