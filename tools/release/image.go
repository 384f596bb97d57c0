package main

import (
	"os"
	"path/filepath"
)

// writeImage saves the container image as the program makes it: an OCI layout for both architectures.
func (r *Release) writeImage(b *Built) error {
	file := filepath.Join(filepath.Dir(b.Host), "image.tar")
	args := []string{"image", "save", file, "--name", r.Image + ":" + r.Version}
	for _, p := range imagePlatforms {
		args = append(args, "--binary", p.OS+"/"+p.Arch+"="+b.Programs[p])
	}
	if _, err := output(b.Host, args...); err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return r.write("lapse-"+r.Version+"-image.tar", data)
}
