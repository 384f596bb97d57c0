package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A File is a file of an archive or a package.
type File struct {
	Name string
	Mode os.FileMode
	Data []byte
}

// archiveName returns the name of a platform's archive, without the suffix, and of the folder in it.
func (r *Release) archiveName(p Platform) string { return "lapse-" + r.Version + "-" + p.String() }

func (r *Release) archiveFile(p Platform) string {
	if p.OS == "windows" {
		return r.archiveName(p) + ".zip"
	}
	return r.archiveName(p) + ".tar.gz"
}

func (r *Release) writeArchives(b *Built) error {
	for _, p := range r.Platforms {
		files, err := r.contents(p, b)
		if err != nil {
			return err
		}
		pack := tarball
		if p.OS == "windows" {
			pack = zipped
		}
		data, err := pack(files, r.archiveName(p), r.Time)
		if err != nil {
			return err
		}
		if err := r.write(r.archiveFile(p), data); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the files of a platform's archive.
func (r *Release) contents(p Platform, b *Built) ([]File, error) {
	license, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	readme, err := r.render("README.txt", r)
	if err != nil {
		return nil, err
	}
	files := []File{
		{"LICENSE", 0o644, license},
		{"README.txt", 0o644, readme},
		{"man/lapse.1", 0o644, b.Manual},
		completer(p),
	}
	for name, script := range b.Completions {
		files = append(files, File{"completions/" + name, 0o644, script})
	}
	programs, err := programs(p, b)
	return append(files, programs...), err
}

// programs returns the program for a platform, and in image/ those that `lapse image push` packs. None is there twice:
// a program for Linux packs itself.
func programs(p Platform, b *Built) ([]File, error) {
	names := map[Platform]string{}
	for _, linux := range imagePlatforms {
		names[linux] = "image/" + linux.String() + "/lapse"
	}
	names[p] = p.exe("lapse")
	var files []File
	for platform, name := range names {
		program, err := os.ReadFile(b.Programs[platform])
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, 0o755, program})
	}
	return files, nil
}

// completer returns what kubectl runs to complete the command line of the plugin.
func completer(p Platform) File {
	if p.OS == "windows" {
		return File{"kubectl_complete-lapse.cmd", 0o755, []byte("@kubectl-lapse.exe __complete %*\r\n")}
	}
	return File{"kubectl_complete-lapse", 0o755, []byte("#!/bin/sh\n" +
		"# kubectl runs this to complete the command line of `kubectl lapse`.\n" +
		"exec kubectl-lapse __complete \"$@\"\n")}
}

// sorted returns the files by name, in a folder.
func sorted(files []File, folder string) []File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Name = folder + "/" + files[i].Name
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files
}

// tarball packs files in a folder, all of one time and owned by root.
func tarball(files []File, folder string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range sorted(files, folder) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: int64(f.Mode), Size: int64(len(f.Data)), ModTime: at,
			Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipped packs files in a folder, all of one time.
func zipped(files []File, folder string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range sorted(files, folder) {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.Mode)
		w, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
