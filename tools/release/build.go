package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// A Platform is a system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// exe returns the name of a program on the platform.
func (p Platform) exe(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

var allPlatforms = []Platform{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// imagePlatforms are those of the container image. Every archive has their programs, for `lapse image push`.
var imagePlatforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}}

// Built is what the compiler made, and what the program says about itself.
type Built struct {
	Programs    map[Platform]string // files
	Host        string              // the program that runs on this machine
	Manual      []byte
	Completions map[string][]byte // by file name
}

// completions are the shells, and what their scripts are called.
var completions = map[string]string{
	"bash": "lapse.bash", "zsh": "_lapse", "fish": "lapse.fish", "powershell": "lapse.ps1",
}

// build compiles the program for all platforms, and asks the one for this machine for its manual and completions.
func (r *Release) build(work string) (*Built, error) {
	host := Platform{runtime.GOOS, runtime.GOARCH}
	b := &Built{Programs: map[Platform]string{}, Completions: map[string][]byte{}}
	for _, p := range slices.Concat(imagePlatforms, r.Platforms, []Platform{host}) {
		if b.Programs[p] != "" {
			continue
		}
		begun := time.Now()
		b.Programs[p] = filepath.Join(work, p.String(), p.exe("lapse"))
		if err := r.compile(p, b.Programs[p]); err != nil {
			return nil, err
		}
		fmt.Fprintf(r.Log, "%9.0f s  %s compiled\n", time.Since(begun).Seconds(), p)
	}
	b.Host = b.Programs[host]
	var err error
	if b.Manual, err = output(b.Host, "man"); err != nil {
		return nil, err
	}
	for shell, file := range completions {
		if b.Completions[file], err = output(b.Host, "completion", shell); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// compile builds the program as `make build` does, with the version of the release and its image.
func (r *Release) compile(p Platform, file string) error {
	linked := fmt.Sprintf("-s -w -buildid= -X %[1]s/internal/run/version.Version=%[2]s "+
		"-X %[1]s/internal/run/version.Homepage=%[4]s -X %[1]s/internal/cli.builtInImage=%[3]s:%[2]s",
		r.Module, r.Version, r.Image, r.Homepage)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", linked, "-o", file, "./cmd/lapse")
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOFLAGS=", "GOWORK=off",
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(r.Time.Unix(), 10))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile for %s: %w\n%s", p, err, out)
	}
	return nil
}

// output returns what a program prints.
func output(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w\n%s", filepath.Base(name), args, err, &stderr)
	}
	return out, nil
}
