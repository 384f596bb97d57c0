package manifest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lapse/internal/hint/input"
)

// A tree is what is found below a directory.
type tree struct {
	files          []string
	charts         []string
	kustomizations []string        // directories
	patches        map[string]bool // patches of kustomizations, and directories that they build on
}

func (t *tree) walk(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "vendor") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
				t.charts = append(t.charts, path)
				return fs.SkipDir
			}
		case isKustomization(path):
			t.kustomize(path)
		case strings.HasPrefix(name, "."):
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // also what a link leads to
				t.files = append(t.files, path)
			}
		}
		return nil
	})
}

func isKustomization(path string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, filepath.Base(path))
}

// kustomize notes the patches of a kustomization, which are no objects, and the directories that it builds on.
// https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
func (t *tree) kustomize(path string) {
	type patch struct {
		Path string `json:"path"`
	}
	var is struct {
		Resources             []string `json:"resources"`
		Components            []string `json:"components"`
		Bases                 []string `json:"bases"`
		Patches               []patch  `json:"patches"`
		PatchesStrategicMerge []string `json:"patchesStrategicMerge"`
		PatchesJSON6902       []patch  `json:"patchesJson6902"`
		Transformers          []string `json:"transformers"`
		Generators            []string `json:"generators"`
		Replacements          []patch  `json:"replacements"`
		Configurations        []string `json:"configurations"`
	}
	dir := filepath.Dir(path)
	t.kustomizations = append(t.kustomizations, dir)
	data, err := input.File(path, input.Manifests)
	if err != nil || yaml.Unmarshal(data, &is) != nil {
		return
	}
	for _, name := range slices.Concat(is.PatchesStrategicMerge, is.Transformers, is.Generators, is.Configurations) {
		t.patches[filepath.Join(dir, name)] = true
	}
	for _, p := range slices.Concat(is.Patches, is.PatchesJSON6902, is.Replacements) {
		t.patches[filepath.Join(dir, p.Path)] = true
	}
	for _, name := range slices.Concat(is.Resources, is.Components, is.Bases) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			t.patches[filepath.Join(dir, name)] = true
		}
	}
}
