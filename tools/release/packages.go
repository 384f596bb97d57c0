package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// zshFolder is where a package puts zsh's completions.
var zshFolder = map[string]string{
	"deb": "/usr/share/zsh/vendor-completions/", "rpm": "/usr/share/zsh/site-functions/",
}

// writePackages writes deb and rpm for the architectures of Linux that have an archive.
func (r *Release) writePackages(b *Built) error {
	for _, p := range r.Platforms {
		if p.OS != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.writePackage(p, format, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Release) writePackage(p Platform, format string, b *Built) error {
	work, err := os.MkdirTemp("", "lapse-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	contents, err := r.installed(p, format, b, work)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "lapse", Arch: p.Arch, Platform: "linux", Version: r.Version, Release: "1",
		Section: "net", Priority: "optional", Maintainer: r.Maintainer, Homepage: r.Homepage, License: "Apache-2.0",
		Description: "Measures when, for how long and why a Kubernetes Service drops requests",
		MTime:       r.Time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return r.write(r.archiveName(p)+"."+format, out.Bytes())
}

// installed returns what a package installs. The program is in a folder of its own, since it looks beside itself for
// the program of the other architecture.
func (r *Release) installed(p Platform, format string, b *Built, work string) (files.Contents, error) {
	inArchive, err := r.contents(p, b)
	if err != nil {
		return nil, err
	}
	contents := files.Contents{
		link("/usr/bin/lapse", "../lib/lapse/lapse"),
		link("/usr/bin/kubectl-lapse", "../lib/lapse/lapse"),
	}
	for _, f := range inArchive {
		to, data := "", f.Data
		switch f.Name {
		case "LICENSE":
			to = "/usr/share/doc/lapse/copyright"
		case "README.txt":
			to = "/usr/share/doc/lapse/README.txt"
		case "kubectl_complete-lapse":
			to = "/usr/bin/kubectl_complete-lapse"
		case "man/lapse.1":
			to = "/usr/share/man/man1/lapse.1.gz"
			if data, err = zippedManual(data); err != nil {
				return nil, err
			}
		case "completions/lapse.bash":
			to = "/usr/share/bash-completion/completions/lapse"
		case "completions/_lapse":
			to = zshFolder[format] + "_lapse"
		case "completions/lapse.fish":
			to = "/usr/share/fish/vendor_completions.d/lapse.fish"
		case "completions/lapse.ps1":
			continue
		default:
			to = "/usr/lib/lapse/" + f.Name
		}
		from := filepath.Join(work, strings.ReplaceAll(f.Name, "/", "_"))
		if err := os.WriteFile(from, data, 0o600); err != nil {
			return nil, err
		}
		contents = append(contents, &files.Content{
			Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.Mode, MTime: r.Time},
		})
	}
	return contents, nil
}

func link(at, to string) *files.Content {
	return &files.Content{Source: to, Destination: at, Type: files.TypeSymlink}
}

// zippedManual returns a manual page as packages have it.
func zippedManual(page []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(page); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
