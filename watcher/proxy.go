package watcher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lapse/internal/kube"
	"lapse/timeline"
)

// DescribeCluster returns what the user may know of the cluster. Few users may read kube-proxy's configuration, and
// not every cluster has it.
func DescribeCluster(ctx context.Context, client kube.Client) timeline.Cluster {
	c, _ := DescribeProxy(ctx, client)
	c.Version = Version(ctx, client)
	return c
}

// DescribeProxy returns what kube-proxy's configuration says.
func DescribeProxy(ctx context.Context, client kube.Client) (c timeline.Cluster, err error) {
	config, err := ProxyConfig(ctx, client)
	if err != nil {
		return c, err
	}
	return ReadProxy(config)
}

// Version returns the version of the API server, or "" if it did not answer.
func Version(ctx context.Context, client kube.Client) string {
	v, err := client.Version(ctx)
	if err != nil {
		return ""
	}
	return v.GitVersion
}

// ProxyConfig returns the ConfigMap with kube-proxy's configuration: kube-proxy, which kubeadm and kind write, or
// kube-proxy-config of EKS, whose kube-proxy holds a kubeconfig.
func ProxyConfig(ctx context.Context, client kube.Client) (*corev1.ConfigMap, error) {
	configs := client.ConfigMaps(metav1.NamespaceSystem)
	config, err := configs.Get(ctx, "kube-proxy", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && proxyText(config) == "" {
		if eks, err := configs.Get(ctx, "kube-proxy-config", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return eks, err
		}
	}
	return config, err
}

// proxyText returns kube-proxy's configuration as kubeadm and EKS name it; "" if a ConfigMap has none.
func proxyText(c *corev1.ConfigMap) string { return cmp.Or(c.Data["config.conf"], c.Data["config"]) }

// ReadProxy reads the mode of kube-proxy and its minSyncPeriod from its configuration.
// https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
func ReadProxy(c *corev1.ConfigMap) (proxy timeline.Cluster, err error) {
	type sync struct {
		MinSyncPeriod metav1.Duration `json:"minSyncPeriod"`
	}
	var config struct {
		Mode     string `json:"mode"`
		IPTables sync   `json:"iptables"`
		NFTables sync   `json:"nftables"`
		IPVS     sync   `json:"ipvs"`
	}
	text := proxyText(c)
	if text == "" {
		return proxy, fmt.Errorf("ConfigMap %s has no configuration of kube-proxy", c.Name)
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return proxy, fmt.Errorf("read ConfigMap %s: %w", c.Name, err)
	}
	// 0 is the default of 1 s; ipvs has none, and then does not wait.
	// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/apis/config/v1alpha1/defaults.go
	proxy.ProxyMode = cmp.Or(config.Mode, "iptables")
	switch proxy.ProxyMode {
	case "iptables":
		proxy.MinSyncPeriod = cmp.Or(config.IPTables.MinSyncPeriod.Duration, time.Second)
	case "nftables":
		proxy.MinSyncPeriod = cmp.Or(config.NFTables.MinSyncPeriod.Duration, time.Second)
	case "ipvs":
		proxy.MinSyncPeriod = config.IPVS.MinSyncPeriod.Duration
	}
	return proxy, nil
}
