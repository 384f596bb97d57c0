package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/command"
	"lapse/sandbox/problem"
)

// An image debian:PACKAGE, such as debian:nginx-light, holds that package of this machine's Debian or Ubuntu, all that
// it depends on, and a shell. debian:nginx-light_php-fpm holds two of them. It needs no registry: the packages are
// downloaded and unpacked into one layer. No script of a package runs, so a container brings its own configuration.
var debianName = regexp.MustCompile(`^debian:([a-z0-9][a-z0-9.-]+(?:_[a-z0-9][a-z0-9.-]+)*)$`)

// debianBase is in every image: directories, users, a shell, and commands such as sleep and kill.
var debianBase = []string{"base-files", "base-passwd", "coreutils", "dash"}

// DebianImage returns the image's tar, which is made only if it is not in the cache yet.
func DebianImage(ctx context.Context, log io.Writer, cache, name string) (string, error) {
	match := debianName.FindStringSubmatch(name)
	if match == nil {
		return "", problem.Errorf("image %q: want debian:PACKAGE, or debian:PACKAGE_PACKAGE for several", name)
	}
	release, err := debianRelease()
	if err != nil {
		return "", problem.Errorf("image %s: this Linux is no Debian or Ubuntu, whose packages it is made of", name)
	}
	source, err := Source()
	if err != nil {
		return "", err
	}
	key, err := debianImageKey(source)
	if err != nil {
		return "", err
	}
	done := filepath.Join(cache, fmt.Sprintf("%s-%s-%s-%s.tar", release, runtime.GOARCH, match[1], key))
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	begin := time.Now()
	fmt.Fprintf(log, "  making the image %s of Debian packages ... ", name)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", problem.Errorf("the cache cannot be written (%v): set LAPSE_SANDBOX_CACHE", err)
	}
	temp, err := os.MkdirTemp(cache, "debian-*.part")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := makeDebianImage(ctx, source, temp, name, strings.Split(match[1], "_")); err != nil {
		fmt.Fprintln(log, "failed")
		return "", fmt.Errorf("make the image %s: %w", name, err)
	}
	fmt.Fprintf(log, "%.0f s\n", time.Since(begin).Seconds())
	return done, os.Rename(filepath.Join(temp, "image.tar"), done)
}

// debianImageKey returns a short name for the code that makes the images. If the code changes, they are made again.
func debianImageKey(source string) (string, error) {
	var parts []string
	for _, file := range []string{"build/debian_image.go", "../internal/image/image.go", "../internal/image/save.go"} {
		data, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	return digest(parts...), nil
}

// makeDebianImage writes image.tar into a folder.
func makeDebianImage(ctx context.Context, source, dir, name string, packages []string) error {
	debs, err := downloadAll(ctx, dir, append(slices.Clone(debianBase), packages...))
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root.tar")
	file, err := os.Create(root)
	if err != nil {
		return err
	}
	if err := errors.Join(writeRoot(ctx, file, debs), file.Close()); err != nil {
		return err
	}
	return command.Run(ctx, "", "go", "-C", filepath.Dir(source), "run", "./deploy/mkimage",
		"-name", name, "-user", "0", "-files", root, "-o", filepath.Join(dir, "image.tar"))
}

// downloadAll downloads packages with all that they depend on, as if nothing were installed.
func downloadAll(ctx context.Context, dir string, packages []string) (debs []string, err error) {
	nothing := filepath.Join(dir, "status")
	if err := os.WriteFile(nothing, nil, 0o644); err != nil {
		return nil, err
	}
	args := append([]string{
		"install", "-y", "--download-only", "--no-install-recommends",
		"-o", "Dir::State::status=" + nothing, "-o", "Dir::Cache::archives=" + dir,
		"-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=60",
	}, packages...)
	if err := withUpdate(ctx, io.Discard, func() error { return aptGet(ctx, dir, args...) }); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}

// merged are the directories that are links into /usr (https://wiki.debian.org/UsrMerge). Packages may still have
// files in them by their old names.
var merged = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// leftOut are directories that no server needs.
var leftOut = []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian"}

// writeRoot writes one file system with the contents of the packages.
func writeRoot(ctx context.Context, out io.Writer, debs []string) error {
	root := &root{out: tar.NewWriter(out), has: map[string]bool{}}
	for _, dir := range merged {
		link := &tar.Header{Typeflag: tar.TypeSymlink, Name: dir, Linkname: "usr/" + dir, Mode: 0o777}
		if err := root.add(link, nil); err != nil {
			return err
		}
	}
	for _, deb := range debs {
		if err := root.unpack(ctx, deb); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	return root.out.Close()
}

// A root is a file system that is being written.
type root struct {
	out *tar.Writer
	has map[string]bool // by path
}

// unpack adds the files of a package.
func (r *root) unpack(ctx context.Context, deb string) (err error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	files, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = r.addAll(tar.NewReader(files))
	_, drained := io.Copy(io.Discard, files) // what pads the tar
	if ended := cmd.Wait(); ended != nil {
		ended = fmt.Errorf("dpkg-deb: %w: %s", ended, strings.TrimSpace(talk.String()))
		return errors.Join(err, ended)
	}
	return errors.Join(err, drained)
}

func (r *root) addAll(files *tar.Reader) error {
	for {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		header.Name = inUsr(header.Name)
		if header.Typeflag == tar.TypeLink {
			header.Linkname = inUsr(header.Linkname)
		}
		if err := r.add(header, files); err != nil {
			return err
		}
	}
}

// inUsr is a path as it is after the merge into /usr, without a leading ./
func inUsr(name string) string {
	name = path.Clean(name)
	if first, _, deeper := strings.Cut(name, "/"); deeper && slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}

// accounts are templates that base-passwd's script would copy.
var accounts = map[string]string{
	"usr/share/base-passwd/passwd.master": "etc/passwd",
	"usr/share/base-passwd/group.master":  "etc/group",
}

// add adds a file, unless it is there or no server needs it.
func (r *root) add(header *tar.Header, content io.Reader) error {
	unneeded := func(dir string) bool { return strings.HasPrefix(header.Name, dir+"/") }
	if r.has[header.Name] || header.Name == "." || slices.ContainsFunc(leftOut, unneeded) {
		return nil
	}
	r.has[header.Name] = true
	if account, ok := accounts[header.Name]; ok {
		header.Name = account
	}
	header.ModTime, header.Format = time.Unix(0, 0), tar.FormatUnknown
	if header.Typeflag == tar.TypeDir {
		header.Name += "/"
	}
	if err := r.out.WriteHeader(header); err != nil || header.Size == 0 {
		return err
	}
	_, err := io.Copy(r.out, content)
	return err
}
