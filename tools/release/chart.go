package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// writeChart packs the Helm chart as `helm package` does, with the version of the release and its image.
func (r *Release) writeChart(*Built) error {
	number := r.Version[1:] // Helm's versions have no v
	set := map[string]map[string]string{
		"Chart.yaml":  {"version": number, "appVersion": r.Version},
		"values.yaml": {"repository": r.Image},
	}
	folder := os.DirFS(filepath.Join(r.Root, "deploy/chart"))
	var files []File
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		for key, value := range set[name] {
			if data, err = setLine(data, key, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files = append(files, File{name, 0o644, data})
		return nil
	})
	if err != nil {
		return err
	}
	data, err := tarball(files, "lapse", r.Time)
	if err != nil {
		return err
	}
	return r.write("lapse-"+number+".tgz", data)
}

// setLine sets the value of a key in YAML, where it has a line of its own.
func setLine(text []byte, key, value string) ([]byte, error) {
	line := regexp.MustCompile(`(?m)^( *` + regexp.QuoteMeta(key) + `: ).*$`)
	if n := len(line.FindAll(text, -1)); n != 1 {
		return nil, fmt.Errorf("%d lines set %s, want 1", n, key)
	}
	return line.ReplaceAll(text, []byte("${1}"+value)), nil
}
