package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"lapse/sandbox/build"
)

// The configuration of every component is a template in config/, readable on its own.
//
//go:embed config
var configFiles embed.FS

var templates = template.Must(template.New("").ParseFS(configFiles, "config/*"))

// settings is what the templates see.
type settings struct {
	*sandbox
	Node    node   // the zero node in files of the control plane
	Runtime string // where the Debian packages were unpacked
	Bridge  bool   // pods on a bridge; else point-to-point links

	Snapshotter string
}

func (settings) ClusterDomain() string     { return clusterDomain }
func (s settings) PodRange() string        { return s.both(podRange, podRange6) }
func (settings) DNSServiceAddr6() string   { return dnsServiceAddr6 }
func (settings) ControlPlaneAddr6() string { return controlPlaneAddr6 }
func (settings) DNSServiceAddr() string    { return dnsServiceAddr }
func (settings) ControlPlaneAddr() string  { return controlPlaneAddr }
func (settings) KubeletClient() string     { return kubeletClient }
func (settings) OuterUser() string         { return outerUser }
func (settings) CoreDNSUser() string       { return coreDNSUser }
func (settings) PauseImage() string        { return build.PauseImage }
func (settings) CgroupRoot() string        { return cgroupRoot }
func (s settings) Cluster() []node         { return s.nodes() }
func (s settings) PKI() string             { return s.path("pki") }
func (s settings) Config() string          { return s.path("config") }

// NodeConfig returns the node's own directory below Config.
func (s settings) NodeConfig() string { return s.config(s.Node.Name) }

func render(name string, s settings) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name, s)
	return out.Bytes(), err
}

func (s *sandbox) writeConfig(runtime string) error {
	base := settings{sandbox: s, Runtime: runtime, Bridge: true, Snapshotter: "overlayfs"}
	if err := inNetns(controlPlaneNetns, func() error { base.Bridge = hasBridgeFilter(); return nil }); err != nil {
		return err
	}
	if onOverlay(s.Dir) {
		base.Snapshotter = "native"
	}
	for _, name := range []string{"Corefile", "objects.yaml", "resolv.conf"} {
		if err := writeTemplate(s.config(name), name, base); err != nil {
			return err
		}
	}
	for _, n := range s.nodes() {
		if err := s.writeNode(n, base); err != nil {
			return fmt.Errorf("files of %s: %w", n.Name, err)
		}
	}
	return nil
}

func (s *sandbox) writeNode(n node, base settings) error {
	base.Node = n
	for file, name := range map[string]string{
		"containerd.toml":       "containerd.toml",
		"kubelet.yaml":          "kubelet.yaml",
		"kube-proxy.yaml":       "kube-proxy.yaml",
		"cni/10-lapse.conflist": "cni.conflist",
	} {
		if err := writeTemplate(filepath.Join(base.NodeConfig(), file), name, base); err != nil {
			return err
		}
	}
	return makeNodeRoot(s.nodeRoot(n.Name))
}

func writeTemplate(path, name string, s settings) error {
	data, err := render(name, s)
	if err != nil {
		return err
	}
	if strings.HasSuffix(name, ".conflist") && !json.Valid(data) {
		return fmt.Errorf("%s is not JSON", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// kubeletTunables are the kernel settings a kubelet insists on, and would otherwise write, machine-wide. A
// node sees these files in their place.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/cm/container_manager_linux.go (setupKernelTunables)
var kubeletTunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func tunableFile(root, name string) string {
	return filepath.Join(root, "sys", strings.ReplaceAll(name, "/", "."))
}

// makeNodeRoot lays out what the node will see as /var and /run.
func makeNodeRoot(root string) error {
	for _, dir := range []string{"var/lib", "var/log", "run", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "var/tmp"), 0o1777); err != nil {
		return err
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	for name, value := range kubeletTunables {
		if err := os.WriteFile(tunableFile(root, name), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
