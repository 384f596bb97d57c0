package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func nodeSettings(mode string) settings {
	s := &sandbox{stateDir: stateDir{"/state"}, shape: shape{Nodes: 2}, ProxyMode: mode}
	return settings{sandbox: s, Node: s.nodes()[1], Runtime: "/runtime", Bridge: true, Snapshotter: "overlayfs"}
}

func mustRender(t *testing.T, name string, s settings) string {
	t.Helper()
	out, err := render(name, s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "<no value>") || strings.Contains(string(out), "{{") {
		t.Errorf("%s is not filled in:\n%s", name, out)
	}
	return string(out)
}

func TestEveryFileIsFilledIn(t *testing.T) {
	entries, err := configFiles.ReadDir("config")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		mustRender(t, e.Name(), nodeSettings("nftables"))
	}
}

func TestConfigurationNamesTheNode(t *testing.T) {
	for name, want := range map[string][]string{
		"kubelet.yaml": {"cgroupRoot: /lapse-sandbox/node2\n", "tlsCertFile: /state/pki/node2.crt\n",
			"clusterDNS: [10.96.0.10]\n"},
		"kube-proxy.yaml": {"mode: nftables\n", "hostnameOverride: node2\n"},
		"containerd.toml": {`conf_dir = "/state/config/node2/cni"`, `BinaryName = "/runtime/usr/sbin/runc"`,
			`config_path = "/state/config/certs.d"`},
		"objects.yaml": {"metadata: {name: node1}\nspec: {podCIDR: 10.244.1.0/24,", "clusterIP: 10.96.0.10\n"},
	} {
		got := mustRender(t, name, nodeSettings("nftables"))
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s lacks %q:\n%s", name, line, got)
			}
		}
	}
}

func TestDualStackConfigurationHasBothFamilies(t *testing.T) {
	s := nodeSettings("iptables")
	s.DualStack = true
	for name, want := range map[string][]string{
		"kube-proxy.yaml": {`clusterCIDR: "10.244.0.0/16,fd00:10:244::/56"`},
		"objects.yaml": {`podCIDRs: [10.244.1.0/24, "fd00:10:244:1::/64"]`,
			`clusterIPs: [10.96.0.10, "fd00:10:96::10"]`, `addresses: ["fd00:10:200::1"]`},
		"cni.conflist": {`"ranges": [[{"subnet": "10.244.2.0/24"}], [{"subnet": "fd00:10:244:2::/64"}]]`,
			`{"dst": "::/0"}`},
	} {
		got := mustRender(t, name, s)
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s lacks %q:\n%s", name, line, got)
			}
		}
		if one := mustRender(t, name, nodeSettings("iptables")); strings.Contains(one, "fd00") {
			t.Errorf("%s of one family:\n%s", name, one)
		}
	}
}

func TestPodsGetPointToPointLinksWithoutBridgeFilter(t *testing.T) {
	for bridge, want := range map[bool]string{true: "bridge", false: "ptp"} {
		s := nodeSettings("iptables")
		s.Bridge = bridge
		var list struct {
			Plugins []struct {
				Type string
				IPAM struct{ Ranges [][]struct{ Subnet string } }
			}
		}
		if err := json.Unmarshal([]byte(mustRender(t, "cni.conflist", s)), &list); err != nil {
			t.Fatal(err)
		}
		if got := list.Plugins[0]; got.Type != want || got.IPAM.Ranges[0][0].Subnet != "10.244.2.0/24" {
			t.Errorf("bridge filter %v: %+v", bridge, got)
		}
	}
}

func TestNodeSeesTheKernelSettingsItsKubeletWants(t *testing.T) {
	root := t.TempDir()
	if err := makeNodeRoot(root); err != nil {
		t.Fatal(err)
	}
	for name, value := range kubeletTunables {
		if got, err := os.ReadFile(tunableFile(root, name)); err != nil || string(got) != value+"\n" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}
