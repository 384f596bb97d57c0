package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/renameio/v2/maybe"
)

// Save writes an image as a tar that docker load, ctr images import and skopeo read. As docker save since version 25
// writes it, that is an OCI layout of all platforms, and a manifest.json of one: of this machine's, or of the first.
func Save(w io.Writer, index v1.ImageIndex, tag name.Tag) error {
	dir, err := os.MkdirTemp("", "lapse-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := writeLayout(dir, index, tag); err != nil {
		return err
	}
	t := tar.NewWriter(w)
	err = fs.WalkDir(os.DirFS(dir), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == "." {
			return err
		}
		if entry.IsDir() {
			return add(t, tar.Header{Typeflag: tar.TypeDir, Name: file + "/", Mode: 0o755}, nil)
		}
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		return add(t, tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644}, data)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func writeLayout(dir string, index v1.ImageIndex, tag name.Tag) error {
	images, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = images.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          inFull(tag.Name()),
		"org.opencontainers.image.ref.name": tag.TagStr(),
	}))
	if err != nil {
		return err
	}
	manifest, err := dockerManifest(index, tag)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o644)
}

// dockerManifest returns the manifest.json of docker save.
// https://github.com/moby/moby/blob/v28.0.0/image/spec/spec.md#combined-image-json--filesystem-changeset-format
func dockerManifest(index v1.ImageIndex, tag name.Tag) ([]byte, error) {
	all, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	digest := all.Manifests[0].Digest
	for _, m := range all.Manifests {
		if m.Platform.Architecture == runtime.GOARCH {
			digest = m.Digest
		}
	}
	img, err := index.Image(digest)
	if err != nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }
	saved := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{tag.String()}}
	for _, l := range manifest.Layers {
		saved.Layers = append(saved.Layers, blob(l.Digest))
	}
	return json.Marshal(tarball.Manifest{saved})
}

// inFull returns a name as containerd has it: Docker Hub is docker.io there.
func inFull(name string) string {
	if rest, ok := strings.CutPrefix(name, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return name
}

// SaveFile is [Save] to a file, which is there whole or not at all (not on Windows).
func SaveFile(file string, index v1.ImageIndex, tag name.Tag) error {
	var text bytes.Buffer
	if err := Save(&text, index, tag); err != nil {
		return err
	}
	return maybe.WriteFile(file, text.Bytes(), 0o644)
}
