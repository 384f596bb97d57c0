package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/command"
	"lapse/sandbox/problem"
)

// From Debian (or Ubuntu) come two kinds of things. Ordinary tools are installed as packages. containerd,
// runc and the CNI plugins are only unpacked into the cache: installing them could replace, restart or
// start a container runtime of the machine's owner.

// A tool is something that must be installed; any of the paths will do.
type tool struct {
	pkg, what string
	found     func() bool
}

var tools = []tool{
	{"iproute2", "ip", onPath("ip")},
	{"iptables", "iptables", onPath("iptables", "iptables-save", "iptables-restore")},
	{"nftables", "nft", onPath("nft")},
	{"conntrack", "conntrack", onPath("conntrack")},
	{"mount", "mount", onPath("mount", "umount")},
	{"libseccomp2", "libseccomp.so.2", onDisk("/usr/lib/*/libseccomp.so.2", "/lib/*/libseccomp.so.2",
		"/usr/lib*/libseccomp.so.2")},
}

func onPath(names ...string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := exec.LookPath(name)
			return err != nil
		})
	}
}

func onDisk(patterns ...string) func() bool {
	return func() bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			found, _ := filepath.Glob(p)
			return len(found) > 0
		})
	}
}

func missingTools() (packages []string) {
	for _, t := range tools {
		if !t.found() {
			packages = append(packages, t.pkg)
		}
	}
	return packages
}

// NeedTools returns an error that says which packages must be installed, if any.
func NeedTools() error {
	missing := strings.Join(missingTools(), " ")
	switch {
	case missing == "":
		return nil
	case isDebian():
		return problem.Errorf("missing packages: run `sandbox setup` or `apt-get install %s`", missing)
	default:
		return problem.Errorf("missing packages: install %s", missing)
	}
}

// InstallTools installs the packages that are missing.
func InstallTools(ctx context.Context, log io.Writer) error {
	missing := missingTools()
	if len(missing) == 0 {
		return nil
	}
	if !isDebian() || os.Geteuid() != 0 {
		return NeedTools()
	}
	fmt.Fprintf(log, "  installing %s\n", strings.Join(missing, " "))
	install := func() error {
		return aptGet(ctx, "", append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	}
	if err := withUpdate(ctx, log, install); err != nil {
		return err
	}
	if still := missingTools(); len(still) > 0 {
		return problem.Errorf("apt-get installed %s, but something in them is still missing", strings.Join(still, " "))
	}
	return nil
}

// withUpdate calls try, and after a failure once more with fresh package lists.
func withUpdate(ctx context.Context, log io.Writer, try func() error) error {
	if try() == nil {
		return nil
	}
	fmt.Fprintln(log, "  apt-get update")
	if err := aptGet(ctx, "", "update"); err != nil {
		return err
	}
	return try()
}

func aptGet(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return problem.Errorf("apt-get %s failed: %s", strings.Join(args, " "),
			strings.Join(strings.Fields(command.LastLines(string(out), 2)), " "))
	}
	return nil
}

func isDebian() bool { _, err := debianRelease(); return err == nil }

// debianRelease returns "debian-12" or "ubuntu-24.04".
func debianRelease() (string, error) {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	return parseRelease(data)
}

func parseRelease(osRelease []byte) (string, error) {
	field := map[string]string{}
	for line := range strings.Lines(string(osRelease)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		field[key] = strings.Trim(value, `"'`)
	}
	family := strings.Fields(field["ID"] + " " + field["ID_LIKE"])
	if !slices.Contains(family, "debian") && !slices.Contains(family, "ubuntu") {
		return "", errors.New("not a Debian")
	}
	return field["ID"] + "-" + field["VERSION_ID"], nil
}

// Unpacked says which packages are unpacked into a folder of the cache.
type Unpacked struct {
	name      string // of the folder
	packages  []string
	files     []string // must be there after unpacking
	run       []string // of these, programs that are tried
	libraries bool     // the packages that they depend on and that are not installed are unpacked with them
}

// What is unpacked for the nodes, and for the ingress.
var (
	ContainerRuntime = Unpacked{
		name: "runtime", packages: []string{"containerd", "runc", "containernetworking-plugins"},
		files: []string{
			"usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc",
			"usr/lib/cni/bridge", "usr/lib/cni/host-local", "usr/lib/cni/loopback",
			"usr/lib/cni/portmap", "usr/lib/cni/ptp",
		},
		run: []string{"usr/bin/containerd", "usr/sbin/runc"},
	}
	IngressProxy = Unpacked{
		name: "ingress", packages: []string{"haproxy"}, files: []string{"usr/sbin/haproxy"},
		run: []string{"usr/sbin/haproxy"}, libraries: true,
	}
)

func (u Unpacked) dir(cache string) (string, error) {
	release, err := debianRelease()
	if err != nil {
		return "", problem.Errorf("this Linux is no Debian or Ubuntu: %s come from its packages",
			strings.Join(u.packages, ", "))
	}
	return filepath.Join(cache, u.name+"-"+release+"-"+runtime.GOARCH), nil
}

// In returns the folder, if everything is in it.
func (u Unpacked) In(cache string) (string, error) {
	dir, err := u.dir(cache)
	if err != nil {
		return "", err
	}
	for _, name := range u.files {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", problem.Errorf("%s is not prepared yet: run `sandbox setup`", u.packages[0])
		}
	}
	return dir, nil
}

// Prepare downloads the packages and unpacks them into the cache, without installing them.
func (u Unpacked) Prepare(ctx context.Context, log io.Writer, cache string) (string, error) {
	if dir, err := u.In(cache); err == nil {
		return dir, nil
	}
	dir, err := u.dir(cache)
	if err != nil {
		return "", err
	}
	begin := time.Now()
	fmt.Fprintf(log, "  unpacking %s\n", strings.Join(u.packages, ", "))
	temp, err := os.MkdirTemp(cache, u.name+"-*.part")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := u.download(ctx, log, temp); err != nil {
		return "", err
	}
	os.RemoveAll(dir)
	if err := os.Rename(filepath.Join(temp, "root"), dir); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "  Unpacked in %.0f s\n", time.Since(begin).Seconds())
	if _, err := u.In(cache); err != nil {
		return "", problem.Errorf("the packages %s of this release lack what the sandbox needs: %s",
			strings.Join(u.packages, ", "), strings.Join(u.files, ", "))
	}
	return dir, u.runs(ctx, dir)
}

func (u Unpacked) download(ctx context.Context, log io.Writer, dir string) error {
	args := []string{"download"}
	if u.libraries { // apt-get knows which: it fetches what an installation would need
		args = []string{"install", "-y", "--download-only", "--no-install-recommends", "--reinstall", "-o",
			"Dir::Cache::archives=" + dir}
	}
	download := func() error { return aptGet(ctx, dir, append(args, u.packages...)...) }
	if err := withUpdate(ctx, log, download); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := command.Run(ctx, "", "dpkg-deb", "-x", deb, filepath.Join(dir, "root")); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(dir, "root"), 0o755)
}

// env lets a program find the libraries that were Unpacked with it.
func (u Unpacked) Env(dir string) []string {
	if !u.libraries {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu*"))
	older, _ := filepath.Glob(filepath.Join(dir, "lib/*-linux-gnu*"))
	return []string{"LD_LIBRARY_PATH=" + strings.Join(append(found, older...), ":")}
}

// runs returns an error if a program does not run, as where a shared library is missing.
func (u Unpacked) runs(ctx context.Context, dir string) error {
	for _, name := range u.run {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, name), "-v")
		cmd.Env = append(os.Environ(), u.Env(dir)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return problem.Errorf("%s does not run: %s", filepath.Base(name), bytes.TrimSpace(out))
		}
	}
	return nil
}
