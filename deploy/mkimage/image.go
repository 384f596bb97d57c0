package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An image is one static binary in an otherwise empty file system with a writable /tmp, or a whole file system.
type image struct {
	Name       string // with tag; containerd and Docker complete a bare name with docker.io/library/
	Entrypoint string // absolute; the binary's path in the image
	User       string // numeric, so that Kubernetes can check runAsNonRoot without an /etc/passwd
	Binary     []byte
	Files      []byte // instead of Binary and Entrypoint: a whole file system as a tar, for this machine's architecture
}

// Write writes the tar in the format of docker save, which ctr images import and skopeo copy docker-archive: also read.
// go-containerregistry stays at 0.21.6: later versions need a newer x/net than client-go asks for.
func (img image) Write(w io.Writer) error {
	if err := img.validate(); err != nil {
		return err
	}
	arch, files, err := img.contents()
	if err != nil {
		return err
	}
	tag, err := name.NewTag(img.Name)
	if err != nil {
		return fmt.Errorf("-name %q: %w", img.Name, err)
	}
	config, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       v1.Config{Entrypoint: img.entrypoint(), User: img.User, WorkingDir: "/"},
	})
	if err != nil {
		return err
	}
	packed, err := mutate.Append(config, mutate.Addendum{
		Layer:   static.NewLayer(files, types.DockerUncompressedLayer),
		History: v1.History{CreatedBy: "mkimage"},
	})
	if err != nil {
		return err
	}
	return tarball.Write(tag, packed, w)
}

func (img image) validate() error {
	switch {
	case img.Name == "" || !strings.Contains(path.Base(img.Name), ":"):
		return fmt.Errorf("-name %q: want a name with a tag, such as lapse:dev", img.Name)
	case img.Files != nil:
		return nil
	case !path.IsAbs(img.Entrypoint) || path.Clean(img.Entrypoint) != img.Entrypoint || img.Entrypoint == "/":
		return fmt.Errorf("-entrypoint %q: want an absolute path, such as /lapse", img.Entrypoint)
	}
	return nil
}

// contents returns the image's architecture, and its file system as a tar.
func (img image) contents() (arch string, files []byte, err error) {
	if img.Files != nil {
		return runtime.GOARCH, img.Files, nil
	}
	if arch, err = architecture(img.Binary); err != nil {
		return "", nil, err
	}
	files, err = img.layer()
	return arch, files, err
}

func (img image) entrypoint() []string {
	if img.Entrypoint == "" {
		return nil
	}
	return []string{img.Entrypoint}
}

// architecture reads the ELF header, and refuses a binary that needs libraries the image does not have.
func architecture(binary []byte) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return "", fmt.Errorf("the binary is not a Linux program: %w", err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("the binary is not static: build it with CGO_ENABLED=0")
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("unknown machine %v", file.Machine)
}

// layer returns the file system with the binary, as a tar.
func (img image) layer() ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, dir := range parents(img.Entrypoint) {
		if err := add(t, tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	if err := add(t, tar.Header{Typeflag: tar.TypeReg, Name: img.Entrypoint[1:], Mode: 0o755}, img.Binary); err != nil {
		return nil, err
	}
	if err := add(t, tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil); err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// parents returns the directories above a path, except the root, from the top.
func parents(file string) []string {
	var dirs []string
	for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// add adds a file with a fixed time, so that every machine writes the same bytes.
func add(t *tar.Writer, header tar.Header, data []byte) error {
	header.Size, header.ModTime, header.Format = int64(len(data)), time.Unix(0, 0), tar.FormatUSTAR
	if err := t.WriteHeader(&header); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}
