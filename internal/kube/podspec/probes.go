package podspec

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Probes returns the probes that a container has.
func Probes(c *corev1.Container) []*corev1.Probe {
	all := []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe}
	return slices.DeleteFunc(all, func(p *corev1.Probe) bool { return p == nil })
}

// Seconds returns a duration that a spec gives in seconds.
func Seconds[N int32 | int64](n N) time.Duration { return time.Duration(n) * time.Second }

// FailsAfter returns how long a probe may go on failing before it counts: period × threshold.
func FailsAfter(p *corev1.Probe) time.Duration {
	return Seconds(cmp.Or(p.PeriodSeconds, 10) * cmp.Or(p.FailureThreshold, 3))
}

// probed returns the port that a probe connects to, the zero value if it does not.
func probed(p *corev1.Probe) intstr.IntOrString {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.Port
	case p.TCPSocket != nil:
		return p.TCPSocket.Port
	case p.GRPC != nil:
		return intstr.FromInt32(p.GRPC.Port)
	}
	return intstr.IntOrString{}
}

// SameCheck reports whether two probes of a container ask the same question, however it is written.
func SameCheck(c *corev1.Container, a, b *corev1.Probe) bool {
	return reflect.DeepEqual(plainCheck(c, a.ProbeHandler), plainCheck(c, b.ProbeHandler))
}

// plainCheck fills in what an HTTP or TCP check leaves out and looks up its port. Only the host counts of its headers:
// it may choose another server.
func plainCheck(c *corev1.Container, h corev1.ProbeHandler) corev1.ProbeHandler {
	if get := h.HTTPGet; get != nil {
		var hosts []corev1.HTTPHeader
		for _, header := range get.HTTPHeaders {
			if strings.EqualFold(header.Name, "Host") {
				hosts = append(hosts, header)
			}
		}
		h.HTTPGet = &corev1.HTTPGetAction{
			Path:        "/" + strings.TrimPrefix(get.Path, "/"),
			Port:        number(c, get.Port),
			Host:        get.Host,
			Scheme:      cmp.Or(get.Scheme, corev1.URISchemeHTTP),
			HTTPHeaders: hosts,
		}
	}
	if open := h.TCPSocket; open != nil {
		h.TCPSocket = &corev1.TCPSocketAction{Port: number(c, open.Port), Host: open.Host}
	}
	return h
}

// number returns the number of a container's port that is given by its name.
func number(c *corev1.Container, port intstr.IntOrString) intstr.IntOrString {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return intstr.FromInt32(p.ContainerPort)
		}
	}
	return port
}
