package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lapse/internal/hint"
)

// User is whom Lapse's image runs as.
const User = "65532"

// arches are the architectures of nodes that the image can be for.
var arches = []string{"amd64", "arm64"}

const binaryHint = "unpack a release archive, whose image/ has them, or name one: --binary linux/amd64=PATH"

// A Program is Lapse's Linux binary for one architecture.
type Program struct{ Arch, Path string }

// Programs returns the binaries that there are, at most one for each architecture: those given as linux/ARCH=PATH; on
// Linux this program; and what a release archive has beside this program, as image/linux-ARCH/lapse.
func Programs(given []string) ([]Program, error) {
	self := ""
	if runtime.GOOS == "linux" {
		self = "/proc/self/exe" // also if its file has been replaced meanwhile
	}
	beside := ""
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			beside = filepath.Join(filepath.Dir(real), "image")
		}
	}
	return programs(given, self, beside)
}

func programs(given []string, self, beside string) (found []Program, err error) {
	paths := map[string]string{}
	for _, text := range given {
		platform, file, ok := strings.Cut(text, "=")
		arch, linux := strings.CutPrefix(platform, "linux/")
		if !ok || !linux || file == "" || !slices.Contains(arches, arch) {
			return nil, hint.Errorf("as in --binary linux/arm64=PATH", "binary %q: for linux/%s",
				text, strings.Join(arches, " or linux/"))
		}
		paths[arch] = file
	}
	for _, arch := range arches {
		file := paths[arch]
		if file == "" && self != "" && arch == runtime.GOARCH {
			file = self
		}
		if file == "" {
			file = filepath.Join(beside, "linux-"+arch, "lapse")
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		found = append(found, Program{arch, file})
	}
	if len(found) == 0 {
		return nil, hint.Errorf(binaryHint, "the image needs a Linux binary of Lapse")
	}
	return found, nil
}

// Missing returns the platforms for which there is no program.
func Missing(programs []Program) (platforms []string) {
	for _, arch := range arches {
		if !slices.ContainsFunc(programs, func(p Program) bool { return p.Arch == arch }) {
			platforms = append(platforms, "linux/"+arch)
		}
	}
	return platforms
}

// Lapse returns the index of Lapse's image. source is the URL of its source, or "".
func Lapse(programs []Program, version, source string) (v1.ImageIndex, error) {
	about := map[string]string{
		"org.opencontainers.image.title":    "lapse",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if source != "" {
		about["org.opencontainers.image.source"] = source
	}
	var images []v1.Image
	for _, p := range programs {
		binary, err := os.ReadFile(p.Path)
		if err != nil {
			return nil, err
		}
		switch arch, err := architecture(binary); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		case arch != p.Arch:
			return nil, fmt.Errorf("%s is for linux/%s, not for linux/%s", p.Path, arch, p.Arch)
		}
		img, err := Contents{Entrypoint: "/lapse", User: User, Binary: binary}.Image(about)
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return Index(about, images...)
}
