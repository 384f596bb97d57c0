// Release makes everything that a release of Lapse consists of, in one folder and without network:
//
//	go -C tools/release run . -version v0.1.0 -out ../../dist
//
// These are archives for six platforms, each with an SBOM; packages for Debian and Red Hat; the container image; the
// Helm chart; the manifests for Krew and Homebrew; checksums. The same commit, tag and Go give the same bytes: all
// times are the commit's. See docs/how-to/release.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

// A Release says what is released, and where its files go.
type Release struct {
	Project
	Version   string     // such as v0.1.0
	Root      string     // of the repository
	Out       string     // the folder to write
	Platforms []Platform // the archives to make
	Time      time.Time  // of everything in it
	Log       io.Writer
}

// semantic is what Krew, Homebrew and the packages take as a version.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func run(args []string, stderr io.Writer) error {
	r := Release{Platforms: allPlatforms, Log: stderr}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.Version, "version", "", "such as v0.1.0")
	flags.StringVar(&r.Root, "root", "../..", "the repository")
	flags.StringVar(&r.Out, "out", "../../dist", "the folder to write; it must not exist")
	flags.Func("only", "make only the archive of one `platform`, such as linux-amd64 (default: of all)",
		func(text string) (err error) {
			r.Platforms, err = platformsNamed(text)
			return err
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err := r.Make(); err != nil {
		return err
	}
	if unset := r.unset(); len(unset) > 0 {
		fmt.Fprintf(stderr, "\nBefore you publish this, set in project.env, and make it again:\n  %s\n",
			strings.Join(unset, "\n  "))
	}
	return nil
}

// platformsNamed returns the platform of a name such as linux-amd64.
func platformsNamed(text string) ([]Platform, error) {
	for _, p := range allPlatforms {
		if p.String() == text {
			return []Platform{p}, nil
		}
	}
	return nil, fmt.Errorf("want one of %v", allPlatforms)
}

// Make makes the release.
func (r *Release) Make() error {
	if !semantic.MatchString(r.Version) {
		return fmt.Errorf("version %q: want one such as v0.1.0", r.Version)
	}
	if err := r.complete(); err != nil {
		return err
	}
	if err := os.Mkdir(r.Out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "lapse-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	built, err := r.build(work)
	if err != nil {
		return err
	}
	return r.pack(built)
}

// complete reads what the repository says.
func (r *Release) complete() (err error) {
	if r.Root, err = filepath.Abs(r.Root); err != nil {
		return err
	}
	if r.Project, err = readProject(filepath.Join(r.Root, "project.env")); err != nil {
		return err
	}
	r.Time, err = commitTime(r.Root)
	return err
}

// pack writes everything from the built programs. What names checksums of others comes after them.
func (r *Release) pack(built *Built) error {
	for _, step := range []func(*Built) error{
		r.writeArchives, r.writeSBOMs, r.writePackages, r.writeImage, r.writeChart,
		r.writeKrew, r.writeFormula, r.writeChecksums,
	} {
		if err := step(built); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the release.
func (r *Release) write(name string, data []byte) error {
	file := filepath.Join(r.Out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(r.Log, "%8.1f MB  %s\n", float64(len(data))/1e6, name)
	return os.WriteFile(file, data, 0o644)
}
