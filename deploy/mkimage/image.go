package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// An image is one static binary in an otherwise empty file system with a writable /tmp.
type image struct {
	Name       string // with tag; a bare name gets docker.io/library/ where the full one is asked for
	Entrypoint string // absolute; the binary's path in the image
	User       string // numeric, so that Kubernetes can check runAsNonRoot without an /etc/passwd
	Binary     []byte
}

// A blob is content named by its digest.
type blob struct {
	data   []byte
	digest string // in hex
}

func newBlob(data []byte) blob { return blob{data, fmt.Sprintf("%x", sha256.Sum256(data))} }

func (b blob) path() string { return "blobs/sha256/" + b.digest }

// Media types and field names: https://github.com/opencontainers/image-spec/blob/v1.1.0/spec.md
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

type object = map[string]any

func (b blob) descriptor(mediaType string) object {
	return object{"mediaType": mediaType, "digest": "sha256:" + b.digest, "size": len(b.data)}
}

// Write writes the tar.
func (img image) Write(w io.Writer) error {
	if err := img.validate(); err != nil {
		return err
	}
	arch, err := architecture(img.Binary)
	if err != nil {
		return err
	}
	layerTar, err := img.layer()
	if err != nil {
		return err
	}
	layer := newBlob(layerTar)
	config := newBlob(encode(img.config(arch, layer)))
	manifest := newBlob(encode(object{
		"schemaVersion": 2,
		"mediaType":     typeManifest,
		"config":        config.descriptor(typeConfig),
		"layers":        []object{layer.descriptor(typeLayer)},
	}))
	return writeTar(w, []entry{
		{name: "oci-layout", data: encode(object{"imageLayoutVersion": "1.0.0"})},
		{name: "index.json", data: encode(img.index(manifest))},
		{name: "manifest.json", data: encode([]object{{ // what docker load reads
			"Config": config.path(), "RepoTags": []string{img.Name}, "Layers": []string{layer.path()},
		}})},
		{name: config.path(), data: config.data},
		{name: manifest.path(), data: manifest.data},
		{name: layer.path(), data: layer.data},
	})
}

func (img image) validate() error {
	switch {
	case img.Name == "" || !strings.Contains(path.Base(img.Name), ":"):
		return fmt.Errorf("-name %q: want a name with a tag, such as lapse:dev", img.Name)
	case !path.IsAbs(img.Entrypoint) || path.Clean(img.Entrypoint) != img.Entrypoint || img.Entrypoint == "/":
		return fmt.Errorf("-entrypoint %q: want an absolute path, such as /lapse", img.Entrypoint)
	}
	return nil
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

func (img image) config(arch string, layer blob) object {
	return object{
		"architecture": arch,
		"os":           "linux",
		"created":      time.Unix(0, 0).UTC().Format(time.RFC3339),
		"config":       object{"Entrypoint": []string{img.Entrypoint}, "User": img.User, "WorkingDir": "/"},
		"rootfs":       object{"type": "layers", "diff_ids": []string{"sha256:" + layer.digest}},
		"history":      []object{{"created_by": "mkimage"}},
	}
}

// index names the image twice: in full for containerd, by its tag for others.
func (img image) index(manifest blob) object {
	descriptor := manifest.descriptor(typeManifest)
	_, tag, _ := strings.Cut(path.Base(img.Name), ":")
	descriptor["annotations"] = object{
		"io.containerd.image.name":          fullName(img.Name),
		"org.opencontainers.image.ref.name": tag,
	}
	return object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []object{descriptor}}
}

// fullName completes a name as Docker does: lapse:dev is docker.io/library/lapse:dev.
func fullName(name string) string {
	first, _, hasPath := strings.Cut(name, "/")
	switch {
	case !hasPath:
		return "docker.io/library/" + name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return name
	default:
		return "docker.io/" + name
	}
}

// layer is the image's file system.
func (img image) layer() ([]byte, error) {
	var out bytes.Buffer
	var entries []entry
	for dir := path.Dir(img.Entrypoint); dir != "/"; dir = path.Dir(dir) {
		entries = append([]entry{{name: dir[1:] + "/", mode: 0o755}}, entries...)
	}
	entries = append(entries,
		entry{name: img.Entrypoint[1:], mode: 0o755, data: img.Binary},
		entry{name: "tmp/", mode: 0o1777})
	err := writeTar(&out, entries)
	return out.Bytes(), err
}

// An entry is a file, or a directory if its name ends in a slash.
type entry struct {
	name string
	mode int64 // 0644 if zero
	data []byte
}

func writeTar(w io.Writer, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Size: int64(len(e.data)),
			Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// encode is json.Marshal of values that cannot fail; maps come out sorted.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
