package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"lapse/internal/hint"
)

// program returns an ELF file that is enough to be packed.
func program(machine elf.Machine, segments ...elf.ProgType) []byte {
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Phoff: 64, Phnum: uint16(len(segments))}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, header)
	for _, s := range segments {
		binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(s)})
	}
	return out.Bytes()
}

// programFile returns the path of such a file.
func programFile(t *testing.T, machine elf.Machine, segments ...elf.ProgType) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lapse")
	if err := os.WriteFile(path, program(machine, segments...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// bothPlatforms returns Lapse's image for amd64 and arm64.
func bothPlatforms(t *testing.T) v1.ImageIndex {
	t.Helper()
	index, err := Lapse([]Program{{"amd64", programFile(t, elf.EM_X86_64)}, {"arm64", programFile(t, elf.EM_AARCH64)}}, "v1.2.3", "https://example.org/lapse")
	if err != nil {
		t.Fatal(err)
	}
	return index
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

func saved(t *testing.T, index v1.ImageIndex, called string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Save(&out, index, tagOf(t, called)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestImageIsTheSameBytesEveryTime(t *testing.T) {
	first, second := saved(t, bothPlatforms(t), "lapse:dev"), saved(t, bothPlatforms(t), "lapse:dev")
	untar(t, bytes.NewReader(first))
	if !bytes.Equal(first, second) {
		t.Error("two images of the same binaries differ")
	}
}

// dockerLoad reads a tar as docker load does.
func dockerLoad(t *testing.T, saved []byte, called string) v1.Image {
	t.Helper()
	packed, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(saved)), nil }, new(tagOf(t, called)))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(packed); err != nil { // every digest and size
		t.Error(err)
	}
	return packed
}

// The tar is both an OCI layout of all platforms, under the name that containerd looks for, and docker save's format
// of one platform.
func TestTheTarIsALayoutAndADockerArchive(t *testing.T) {
	text := saved(t, bothPlatforms(t), "lapse:dev")
	packed := dockerLoad(t, text, "lapse:dev")
	config, err := packed.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.Architecture != runtime.GOARCH || config.OS != "linux" || c.User != "65532" || !slices.Equal(c.Entrypoint, []string{"/lapse"}) || c.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("configuration %+v", config)
	}
	dir := t.TempDir()
	for file, content := range untar(t, bytes.NewReader(text)) {
		if strings.HasSuffix(file, "/") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(all); err != nil {
		t.Error(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/lapse:dev" {
		t.Fatalf("index %+v, error %v", manifest, err)
	}
	inner, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	holdsBothPlatforms(t, inner)
}

// holdsBothPlatforms checks Lapse's image as it comes out of a tar or a registry.
func holdsBothPlatforms(t *testing.T, index v1.ImageIndex) {
	t.Helper()
	if err := validate.Index(index); err != nil { // every digest and size
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Annotations["org.opencontainers.image.source"] != "https://example.org/lapse" || len(manifest.Manifests) != 2 {
		t.Fatalf("index %+v", manifest)
	}
	for i, want := range []string{"linux/amd64", "linux/arm64"} {
		if got := manifest.Manifests[i].Platform.String(); got != want {
			t.Errorf("platform %s, want %s", got, want)
		}
		img, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		files := filesOf(t, img)
		if arch, err := architecture(files["lapse"]); err != nil || "linux/"+arch != want {
			t.Errorf("%s has a binary for %s, %v", want, arch, err)
		}
		if _, ok := files["tmp/"]; !ok {
			t.Error("no /tmp for a program that is not root")
		}
	}
}

func filesOf(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	return untar(t, content)
}

func TestAWholeFileSystemIsPackedAsItIs(t *testing.T) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := add(w, tar.Header{Typeflag: tar.TypeReg, Name: "usr/sbin/nginx", Mode: 0o755}, []byte("nginx")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed, err := Contents{User: "0", Files: files.Bytes()}.Image(nil)
	if err != nil {
		t.Fatal(err)
	}
	index, err := Index(nil, packed)
	if err != nil {
		t.Fatal(err)
	}
	packed = dockerLoad(t, saved(t, index, "debian:nginx"), "debian:nginx")
	config, err := packed.ConfigFile()
	if err != nil || config.Config.Entrypoint != nil || config.Config.User != "0" || config.Architecture != runtime.GOARCH {
		t.Errorf("configuration %+v, error %v", config, err)
	}
	if got := filesOf(t, packed); len(got) != 1 || string(got["usr/sbin/nginx"]) != "nginx" {
		t.Errorf("files %q", got)
	}
}

func TestTheEntrypointMayLieInAFolder(t *testing.T) {
	packed, err := Contents{Entrypoint: "/usr/bin/x", Binary: program(elf.EM_X86_64)}.Image(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, packed)
	for _, want := range []string{"usr/", "usr/bin/", "usr/bin/x"} {
		if _, ok := files[want]; !ok {
			t.Errorf("no %s in %q", want, files)
		}
	}
	for _, bad := range []string{"", "x", "/", "/a/../x"} {
		if _, err := (Contents{Entrypoint: bad, Binary: program(elf.EM_X86_64)}).Image(nil); err == nil {
			t.Errorf("entrypoint %q was accepted", bad)
		}
	}
}

func TestWhatCannotRunInAnEmptyImageIsRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{
		"not a Linux program":               script,
		"not static":                        programFile(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_INTERP),
		"no such file":                      "/nowhere",
		"is for linux/arm64, not for linux": programFile(t, elf.EM_AARCH64),
		"unknown machine":                   programFile(t, elf.EM_RISCV),
	} {
		if _, err := Lapse([]Program{{"amd64", path}}, "v1", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

// A binary given by hand is taken before this program, and this program before the archive's.
func TestBinariesAreFoundBesideTheProgram(t *testing.T) {
	archive := t.TempDir()
	for _, arch := range arches {
		if err := os.MkdirAll(filepath.Join(archive, "linux-"+arch), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(archive, "linux-"+arch, "lapse"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	paths := func(given []string, self, beside string) map[string]string {
		found, err := programs(given, self, beside)
		if err != nil {
			t.Fatal(err)
		}
		paths := map[string]string{}
		for _, p := range found {
			paths[p.Arch] = p.Path
		}
		return paths
	}
	ofArchive := filepath.Join(archive, "linux-"+other, "lapse")
	if got := paths(nil, "/proc/self/exe", archive); got[runtime.GOARCH] != "/proc/self/exe" || got[other] != ofArchive {
		t.Errorf("on Linux: %v", got)
	}
	if got := paths(nil, "", archive); len(got) != 2 || got[other] != ofArchive {
		t.Errorf("elsewhere: %v", got)
	}
	if got := paths([]string{"linux/" + runtime.GOARCH + "=mine"}, "/proc/self/exe", ""); len(got) != 1 || got[runtime.GOARCH] != "mine" {
		t.Errorf("given: %v", got)
	}
	if missing := Missing([]Program{{"amd64", "x"}}); !slices.Equal(missing, []string{"linux/arm64"}) {
		t.Errorf("missing %v", missing)
	}
	if _, err := programs(nil, "", ""); err == nil || !strings.Contains(hint.Of(err), "--binary") {
		t.Errorf("no binary: %v", err)
	}
	for _, bad := range []string{"lapse", "linux/arm64", "linux/arm64=", "darwin/arm64=x", "linux/riscv64=x"} {
		if _, err := programs([]string{bad}, "", ""); err == nil {
			t.Errorf("--binary %q was accepted", bad)
		}
	}
}
