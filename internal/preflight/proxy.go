package preflight

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A Proxy is how kube-proxy is configured.
type Proxy struct {
	Mode          string        // iptables, nftables or ipvs
	MinSyncPeriod time.Duration // of that mode; 0: the default
}

// proxyOf reads kube-proxy's configuration where kubeadm and its kind keep it.
// https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
func proxyOf(c *corev1.ConfigMap) (Proxy, error) {
	type sync struct {
		MinSyncPeriod metav1.Duration `json:"minSyncPeriod"`
	}
	var config struct {
		Mode     string `json:"mode"`
		IPTables sync   `json:"iptables"`
		NFTables sync   `json:"nftables"`
		IPVS     sync   `json:"ipvs"`
	}
	text := c.Data["config.conf"]
	if text == "" {
		return Proxy{}, fmt.Errorf("ConfigMap %s has no config.conf", c.Name)
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return Proxy{}, fmt.Errorf("read ConfigMap %s: %w", c.Name, err)
	}
	p := Proxy{Mode: cmp.Or(config.Mode, "iptables")}
	p.MinSyncPeriod = map[string]sync{"iptables": config.IPTables, "nftables": config.NFTables, "ipvs": config.IPVS}[p.Mode].MinSyncPeriod.Duration
	return p, nil
}
