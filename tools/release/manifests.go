package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// render fills in a template.
func (r *Release) render(name string, data any) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}

// A download is an archive as the manifests for package managers name it.
type download struct {
	Platform
	URL, SHA256, Folder, Program string
}

// downloads returns the archives of some systems.
func (r *Release) downloads(systems ...string) (all []download, err error) {
	for _, p := range r.Platforms {
		if !slices.Contains(systems, p.OS) {
			continue
		}
		sum, err := r.checksum(r.archiveFile(p))
		if err != nil {
			return nil, err
		}
		all = append(all, download{p, r.Downloads + "/" + r.Version + "/" + r.archiveFile(p), sum,
			r.archiveName(p), p.exe("lapse")})
	}
	return all, nil
}

// writeKrew writes the manifest of the kubectl plugin: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
func (r *Release) writeKrew(*Built) error {
	return r.writeManifest("plugins/lapse.yaml", "krew.yaml", "linux", "darwin", "windows")
}

// writeFormula writes the formula for Homebrew: https://docs.brew.sh/Formula-Cookbook
func (r *Release) writeFormula(*Built) error {
	return r.writeManifest("Formula/lapse.rb", "formula.rb", "linux", "darwin")
}

func (r *Release) writeManifest(file, from string, systems ...string) error {
	downloads, err := r.downloads(systems...)
	if err != nil {
		return err
	}
	text, err := r.render(from, struct {
		*Release
		Downloads []download
	}{r, downloads})
	if err != nil {
		return err
	}
	return r.write(file, text)
}

// checksum returns the SHA-256 of a file of the release, in hexadecimal.
func (r *Release) checksum(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.Out, filepath.FromSlash(name)))
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

// writeChecksums writes what `sha256sum --check` reads, of all other files.
func (r *Release) writeChecksums(*Built) error {
	var lines []string
	err := fs.WalkDir(os.DirFS(r.Out), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		sum, err := r.checksum(name)
		lines = append(lines, sum+"  "+name+"\n")
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return r.write("checksums.txt", []byte(strings.Join(lines, "")))
}
