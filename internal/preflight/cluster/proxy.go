package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lapse/internal/preflight/service"
)

// proxyOf reads kube-proxy's configuration from the ConfigMap that kubeadm and kind write.
// https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
func proxyOf(c *corev1.ConfigMap) (p service.Proxy, err error) {
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
		return p, fmt.Errorf("ConfigMap %s has no config.conf", c.Name)
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return p, fmt.Errorf("read ConfigMap %s: %w", c.Name, err)
	}
	p.Mode = config.Mode
	switch p.Mode {
	case "", "iptables":
		p.Mode, p.MinSyncPeriod = "iptables", config.IPTables.MinSyncPeriod.Duration
	case "nftables":
		p.MinSyncPeriod = config.NFTables.MinSyncPeriod.Duration
	case "ipvs":
		p.MinSyncPeriod = config.IPVS.MinSyncPeriod.Duration
	}
	return p, nil
}
