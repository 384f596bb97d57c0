package build

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// debOf makes a package with some files; a path that ends with / is a directory.
func debOf(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["DEBIAN/control"] = "Package: " + name +
		"\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: none\n"
	for file, content := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(t.TempDir(), name+".deb")
	if out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", dir, deb).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return deb
}

func TestPackagesBecomeOneFileSystem(t *testing.T) {
	debs := []string{
		debOf(t, "a", map[string]string{"bin/dash": "shell", "usr/share/doc/a/copyright": "long",
			"usr/share/base-passwd/passwd.master": "root"}),
		debOf(t, "b", map[string]string{"usr/bin/dash": "another", "usr/bin/b": "b"}),
	}
	var out bytes.Buffer
	if err := writeRoot(t.Context(), &out, debs); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&out); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		if header.Typeflag != tar.TypeDir {
			got = append(got, strings.TrimSpace(header.Name+" "+header.Linkname+string(content)))
		}
	}
	want := []string{
		"bin usr/bin", "sbin usr/sbin", "lib usr/lib", "lib32 usr/lib32", "lib64 usr/lib64", "libx32 usr/libx32",
		"usr/bin/dash shell", "etc/passwd root", "usr/bin/b b",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestADamagedPackageIsNamed(t *testing.T) {
	deb := filepath.Join(t.TempDir(), "broken.deb")
	if err := os.WriteFile(deb, []byte("no package"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeRoot(t.Context(), io.Discard, []string{deb}); err == nil ||
		!strings.Contains(err.Error(), "broken.deb") {
		t.Errorf("got %v, want an error that names broken.deb", err)
	}
}

func TestOnlyPackagesNamesAreImagesOfDebian(t *testing.T) {
	for name, ok := range map[string]bool{
		"debian:nginx-light": true, "debian:php8.2-fpm": true, "debian:nginx-light_openssl": true,
		"debian:": false, "debian:a/b": false, "debian:--help": false, "debian:nginx_": false, "nginx": false,
	} {
		if debianName.MatchString(name) != ok {
			t.Errorf("%q is an image of Debian packages: %v, want %v", name, !ok, ok)
		}
	}
}
