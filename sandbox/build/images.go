package build

import (
	"context"
	"os"
	"path/filepath"

	"lapse/sandbox/command"
)

// PauseImage keeps the namespaces of a Pod.
const PauseImage = "docker.io/library/lapse-pause:dev"

const workloadImage = "lapse-workload:dev"

// Images writes the images every node has from the start, again only when their source changed, and returns the files.
func Images(ctx context.Context, source, cache string) ([]string, error) {
	key, err := imagesKey(source)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "images-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var tars []string
	for name, image := range map[string]string{"pause": PauseImage, "workload": workloadImage} {
		tar := filepath.Join(dir, name+".tar")
		tars = append(tars, tar)
		if _, err := os.Stat(tar); err == nil {
			continue
		}
		if err := makeImage(ctx, source, filepath.Join(dir, name), name, image); err != nil {
			return nil, err
		}
	}
	return tars, nil
}

// makeImage makes binary and image of ./NAME; the image is written by the repository's own deploy/mkimage.
func makeImage(ctx context.Context, source, binary, name, image string) error {
	if err := goBuild(ctx, source, binary, "./"+name, plainFlags); err != nil {
		return err
	}
	part := binary + ".tar.part"
	mkimage := command.Run(ctx, "", "go", "-C", filepath.Dir(source), "run", "./deploy/mkimage",
		"-name", image, "-entrypoint", "/"+name, "-o", part, binary)
	if mkimage != nil {
		return mkimage
	}
	return os.Rename(part, binary+".tar")
}

func imagesKey(source string) (string, error) {
	var parts []string
	patterns := []string{
		"workload/*.go", "pause/*.go", "../deploy/mkimage/*.go", "../internal/image/*.go", "go.mod", "go.sum",
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			parts = append(parts, file, string(data))
		}
	}
	return digest(parts...), nil
}
