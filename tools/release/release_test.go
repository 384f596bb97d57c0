package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/sassoftware/go-rpmutils"
)

const version = "v1.2.3"

// The test's release is for the systems whose archives differ, and for the machine that the test runs on.
var tested = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}

// Two releases of one commit are the same bytes, made in two folders at two times, by users with another umask and
// time zone. The compiler works once: its cache serves both, since nothing that it depends on names the folder.
// Linking, packing and everything else is done twice.
func TestReleaseIsReproducibleAndWhole(t *testing.T) {
	first, second := makeRelease(t, "a"), ""
	func() {
		t.Setenv("TZ", "Pacific/Auckland")
		defer syscall.Umask(syscall.Umask(0o077))
		second = makeRelease(t, "somewhere/else")
	}()
	if a, b := sums(t, first), sums(t, second); !maps.Equal(a, b) {
		for name, sum := range a {
			if b[name] != sum {
				t.Errorf("%s differs", name)
			}
		}
		t.Errorf("two releases of one commit differ: %v and %v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
	t.Run("checksums", func(t *testing.T) { checkChecksums(t, first) })
	for _, p := range tested {
		t.Run("archive of "+p.String(), func(t *testing.T) { checkArchive(t, first, p) })
		t.Run("SBOM of "+p.String(), func(t *testing.T) { checkSBOM(t, first, p) })
	}
	t.Run("program", func(t *testing.T) { checkProgram(t, first) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, first) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, first) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, first) })
	t.Run("chart", func(t *testing.T) { checkChart(t, first) })
	t.Run("formula", func(t *testing.T) { checkFormula(t, first) })
}

// makeRelease clones the commit into a folder, makes a release there, and returns where.
func makeRelease(t *testing.T, folder string) (dist string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), folder)
	command(t, ".", nil, "git", "clone", "--quiet", "--shared", "../..", root)
	r := Release{Version: version, Root: root, Out: filepath.Join(root, "dist"), Platforms: tested, Log: io.Discard}
	if err := r.Make(); err != nil {
		t.Fatal(err)
	}
	return r.Out
}

// command runs a program in a folder, with more variables in its environment, and returns all that it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, file ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(file...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sums returns the SHA-256 of all files.
func sums(t *testing.T, dist string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dist), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[name] = fmt.Sprintf("%x", sha256.Sum256(read(t, dist, name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func checkChecksums(t *testing.T, dist string) {
	want := sums(t, dist)
	delete(want, "checksums.txt")
	got := map[string]string{}
	for line := range strings.Lines(string(read(t, dist, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		got[name] = sum
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// unpack unpacks an archive into a folder. It holds only files, below one folder, of root and of one time.
func unpack(t *testing.T, dist string, p Platform) (dir string) {
	t.Helper()
	dir = t.TempDir()
	r := &Release{Version: version}
	data := read(t, dist, r.archiveFile(p))
	times := map[time.Time]bool{}
	save := func(name string, mode fs.FileMode, at time.Time, content io.Reader) {
		times[at.UTC()] = true
		inside, below := strings.CutPrefix(name, r.archiveName(p)+"/")
		if !below || !filepath.IsLocal(inside) {
			t.Fatalf("%q is not below the archive's folder", name)
		}
		file := filepath.Join(dir, filepath.FromSlash(inside))
		text, err := io.ReadAll(content)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, text, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p.OS == "windows" {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			content, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			save(f.Name, f.Mode(), f.Modified, content)
		}
	} else {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(z)
		for {
			h, err := archive.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag != tar.TypeReg || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
				t.Errorf("%s: type %c, owner %d:%d %q", h.Name, h.Typeflag, h.Uid, h.Gid, h.Uname)
			}
			save(h.Name, h.FileInfo().Mode(), h.ModTime, archive)
		}
	}
	if at, err := commitTime("../.."); err != nil || len(times) != 1 || !times[at] {
		t.Errorf("times of files: %v, of the commit: %v, %v", times, at, err)
	}
	return dir
}

func checkArchive(t *testing.T, dist string, p Platform) {
	dir := unpack(t, dist, p)
	want := []string{
		"LICENSE", "README.txt", "completions/_lapse", "completions/lapse.bash", "completions/lapse.fish",
		"completions/lapse.ps1", "man/lapse.1", completer(p).Name, p.exe("lapse"),
	}
	programs := map[string]Platform{p.exe("lapse"): p}
	for _, linux := range imagePlatforms {
		if linux != p {
			name := "image/" + linux.String() + "/lapse"
			want, programs[name] = append(want, name), linux
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(sums(t, dir))); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	for name, of := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if settings["GOOS"] != of.OS || settings["GOARCH"] != of.Arch || settings["CGO_ENABLED"] != "0" {
			t.Errorf("%s is for %s/%s with cgo %s, want %s", name, settings["GOOS"], settings["GOARCH"],
				settings["CGO_ENABLED"], of)
		}
		if i, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil || i.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", name, err)
		}
	}
}

func checkSBOM(t *testing.T, dist string, p Platform) {
	r := &Release{Version: version}
	data := read(t, dist, r.archiveName(p)+".cdx.json")
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c == nil || c.Version != version || bom.SerialNumber != "" {
		t.Errorf("component %+v, serial number %q", c, bom.SerialNumber)
	}
	for _, name := range []string{"k8s.io/client-go", "std"} {
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == name }) {
			t.Errorf("no component %s", name)
		}
	}
}

// checkProgram runs what this machine can run.
func checkProgram(t *testing.T, dist string) {
	host := Platform{runtime.GOOS, runtime.GOARCH}
	dir := unpack(t, dist, host)
	lapse := filepath.Join(dir, "lapse")
	if got := command(t, dir, nil, lapse, "--version"); !strings.Contains(got, version) {
		t.Errorf("--version prints %q", got)
	}
	if err := os.Symlink("lapse", filepath.Join(dir, "kubectl-lapse")); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(dir, "kubectl-lapse")
	if got := command(t, dir, nil, plugin, "run", "--help"); !strings.Contains(got, "\n  kubectl lapse run ") {
		t.Errorf("the plugin's usage does not call it kubectl lapse:\n%.500s", got)
	}
	onPath := []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	if got := command(t, dir, onPath, filepath.Join(dir, "kubectl_complete-lapse"), "pref"); !strings.HasPrefix(got, "preflight\t") {
		t.Errorf("kubectl_complete-lapse pref prints %q", got)
	}
	// The image is made of what is beside the program, and is the one of the release.
	image := filepath.Join(dir, "image.tar")
	command(t, dir, nil, lapse, "image", "save", image, "--name", "lapse:"+version)
	if !bytes.Equal(read(t, image), read(t, dist, "lapse-"+version+"-image.tar")) {
		t.Errorf("the archive's `lapse image save` is not the image of the release")
	}
	for name, begins := range map[string]string{
		"completions/lapse.bash": "# bash completion", "completions/_lapse": "#compdef lapse",
		"completions/lapse.fish": "# fish completion", "completions/lapse.ps1": "# powershell completion",
		"man/lapse.1": ".TH LAPSE 1",
	} {
		if text := string(read(t, dir, name)); !strings.HasPrefix(text, begins) {
			t.Errorf("%s begins with %.40q", name, text)
		}
	}
}

func checkDeb(t *testing.T, dist string) {
	file := filepath.Join(dist, "lapse-"+version+"-linux-amd64.deb")
	if got := command(t, dist, nil, "dpkg-deb", "--field", file, "Package", "Version", "Architecture"); got !=
		"Package: lapse\nVersion: 1.2.3-1\nArchitecture: amd64\n" {
		t.Errorf("fields:\n%s", got)
	}
	dir := t.TempDir()
	command(t, dist, nil, "dpkg-deb", "--extract", file, dir)
	checkInstalled(t, dir)
}

// checkInstalled looks at what a package for linux-amd64 installed below a folder.
func checkInstalled(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"usr/bin/lapse", "usr/bin/kubectl-lapse"} {
		if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || path.Join("usr/bin", to) != "usr/lib/lapse/lapse" {
			t.Errorf("%s leads to %q: %v", name, to, err)
		}
	}
	for _, name := range []string{
		"usr/lib/lapse/lapse", "usr/lib/lapse/image/linux-arm64/lapse", "usr/bin/kubectl_complete-lapse",
		"usr/share/man/man1/lapse.1.gz", "usr/share/bash-completion/completions/lapse", "usr/share/doc/lapse/copyright",
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func checkRPM(t *testing.T, dist string) {
	rpm, err := rpmutils.ReadRpm(bytes.NewReader(read(t, dist, "lapse-"+version+"-linux-amd64.rpm")))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := rpm.Header.GetNEVRA(); err != nil || id.String() != "lapse-0:1.2.3-1.x86_64.rpm" {
		t.Errorf("it is %v: %v", id, err)
	}
	dir := t.TempDir()
	if err := rpm.ExpandPayload(dir); err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, dir)
}

// checkKrew has Krew check its manifest, and install from the archives what each system would.
// https://krew.sigs.k8s.io/docs/developer-guide/testing-locally/
func checkKrew(t *testing.T, dist string) {
	tools := t.TempDir()
	command(t, ".", nil, "go", "build", "-o", tools+"/", "sigs.k8s.io/krew/cmd/krew",
		"sigs.k8s.io/krew/cmd/validate-krew-manifest")
	manifest := filepath.Join(dist, "plugins/lapse.yaml")
	command(t, dist, nil, tools+"/validate-krew-manifest", "-skip-install", "-manifest", manifest)
	// What the index's reviewers ask for: https://krew.sigs.k8s.io/docs/developer-guide/develop/best-practices/
	_, short, _ := strings.Cut(string(read(t, manifest)), "shortDescription: ")
	if short, _, _ = strings.Cut(short, "\n"); len(short) > 50 || strings.HasSuffix(short, ".") || strings.Contains(short, "kubectl") {
		t.Errorf("short description %q: at most 50 letters, no full stop, no kubectl", short)
	}
	for _, p := range tested {
		root := t.TempDir()
		env := []string{"KREW_ROOT=" + root, "KREW_OS=" + p.OS, "KREW_ARCH=" + p.Arch, "KREW_NO_UPGRADE_CHECK=1"}
		r := &Release{Version: version}
		command(t, dist, env, tools+"/krew", "install", "--manifest", manifest, "--archive",
			filepath.Join(dist, r.archiveFile(p)))
		store := filepath.Join(root, "store/lapse", version)
		for _, name := range []string{p.exe("lapse"), "LICENSE", "image/linux-arm64/lapse"} {
			if _, err := os.Stat(filepath.Join(store, name)); err != nil && !(p.Arch == "arm64" && strings.Contains(name, "/")) {
				t.Errorf("%s: %v", p, err)
			}
		}
		if (p != Platform{runtime.GOOS, runtime.GOARCH}) {
			continue
		}
		if got := command(t, root, nil, filepath.Join(root, "bin/kubectl-lapse"), "--help"); !strings.Contains(got, "kubectl lapse [command]") {
			t.Errorf("the installed plugin calls itself:\n%.300s", got)
		}
	}
}

// checkChart unpacks the chart, which tools/helm tests, and looks for what the release sets in it.
func checkChart(t *testing.T, dist string) {
	dir := t.TempDir()
	command(t, dir, nil, "tar", "-xzf", filepath.Join(dist, "lapse-1.2.3.tgz"))
	for name, want := range map[string]string{
		"Chart.yaml": "\nversion: 1.2.3\nappVersion: " + version + "\n", "values.yaml": "\n  repository: lapse\n",
		"templates/run/job.yaml": "kind: Job", "templates/guard/deployment.yaml": "kind: Deployment",
		"guard/rules.yaml": "LapseBlind", "guard/dashboard.json": "lapse_",
	} {
		if text := string(read(t, dir, "lapse", name)); !strings.Contains(text, want) {
			t.Errorf("%s has no %q:\n%s", name, want, text)
		}
	}
}

func checkFormula(t *testing.T, dist string) {
	formula := string(read(t, dist, "Formula/lapse.rb"))
	for _, p := range tested {
		r := &Release{Version: version}
		sum := fmt.Sprintf("%x", sha256.Sum256(read(t, dist, r.archiveFile(p))))
		if named := strings.Contains(formula, sum); named != (p.OS == "linux") {
			t.Errorf("%s is in the formula: %v", p, named)
		}
	}
	if !strings.Contains(formula, "version \"1.2.3\"\n") {
		t.Errorf("no version in\n%s", formula)
	}
}

func TestReleaseWantsAVersion(t *testing.T) {
	for _, v := range []string{"", "1.2.3", "v1.2", "v1.2.3-", "v1.2.3+dirty", "main"} {
		if err := (&Release{Version: v}).Make(); err == nil || !strings.Contains(err.Error(), "such as v0.1.0") {
			t.Errorf("version %q: %v", v, err)
		}
	}
}

func TestWhatIsStillToBeSetIsNamed(t *testing.T) {
	fresh := Project{Module: "lapse", Image: "lapse", Homepage: "https://example.org/lapse",
		Downloads: "https://example.org/lapse/releases", Maintainer: "The authors of Lapse <lapse@example.org>"}
	want := []string{"HOMEPAGE=" + fresh.Homepage, "DOWNLOADS=" + fresh.Downloads, "MAINTAINER=" + fresh.Maintainer,
		"IMAGE_NAME=lapse"}
	if got := fresh.unset(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	published := Project{Module: "github.com/you/lapse", Image: "ghcr.io/you/lapse", Homepage: "https://lapse.dev",
		Downloads: "https://lapse.dev/releases", Maintainer: "You <you@lapse.dev>"}
	if got := published.unset(); len(got) > 0 {
		t.Errorf("of a project that is published: %q", got)
	}
}
