// Package image makes container images without Docker: Lapse's own, of its own binaries, and those of the sandbox.
// It pushes an image to a [Registry], writes it to a tar ([Save]) or onto a local cluster's nodes ([Loader]), and
// remembers which image a kubeconfig context uses ([Store]). The same contents always give the same digest.
package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Contents is what an image of one platform holds: a static binary in an otherwise empty file system with a writable
// /tmp, or a whole file system.
type Contents struct {
	Entrypoint string // absolute; the binary's path in the image
	User       string // numeric, so that Kubernetes can check runAsNonRoot without an /etc/passwd
	Binary     []byte
	Files      []byte // instead of Binary and Entrypoint: a whole file system as a tar, for this machine
}

// Image returns the image with labels. It returns an error if the binary cannot run in an empty file system.
// go-containerregistry stays at 0.21.6: later versions need a newer x/net than client-go asks for.
func (c Contents) Image(labels map[string]string) (v1.Image, error) {
	arch, files, err := c.files()
	if err != nil {
		return nil, err
	}
	config := v1.Config{User: c.User, WorkingDir: "/", Labels: labels}
	if c.Entrypoint != "" {
		config.Entrypoint = []string{c.Entrypoint}
	}
	bare, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       config,
	})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	packed, err := mutate.Append(bare, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "lapse"}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigMediaType(mutate.MediaType(packed, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// Index returns an OCI index of images, each of another platform.
func Index(annotations map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	index := v1.ImageIndex(empty.Index)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex), nil
}

// files returns the image's architecture, and its file system as a tar.
func (c Contents) files() (arch string, files []byte, err error) {
	if c.Files != nil {
		return runtime.GOARCH, c.Files, nil
	}
	if !path.IsAbs(c.Entrypoint) || path.Clean(c.Entrypoint) != c.Entrypoint || c.Entrypoint == "/" {
		return "", nil, fmt.Errorf("entrypoint %q: want an absolute path, such as /lapse", c.Entrypoint)
	}
	if arch, err = architecture(c.Binary); err != nil {
		return "", nil, err
	}
	files, err = c.root()
	return arch, files, err
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

// root returns the file system with the binary, as a tar.
func (c Contents) root() ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, dir := range parents(c.Entrypoint) {
		if err := add(t, tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	if err := add(t, tar.Header{Typeflag: tar.TypeReg, Name: c.Entrypoint[1:], Mode: 0o755}, c.Binary); err != nil {
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
