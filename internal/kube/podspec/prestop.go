package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/kube/hook"
)

// PreStop returns a container's hook, nil if it has none.
func PreStop(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || HookKind(c.Lifecycle.PreStop) == "" {
		return nil
	}
	return c.Lifecycle.PreStop
}

// HookKind returns the name that the spec has for a hook's action, "" if it has none.
func HookKind(h *corev1.LifecycleHandler) string {
	switch {
	case h.Sleep != nil:
		return "sleep"
	case h.Exec != nil:
		return "exec"
	case h.HTTPGet != nil:
		return "httpGet"
	case h.TCPSocket != nil:
		return "tcpSocket"
	}
	return ""
}

// Effect returns what a hook surely does before SIGTERM comes. Without a hook, nil, it does nothing.
func Effect(h *corev1.LifecycleHandler) hook.Effect {
	switch {
	case h == nil:
		return hook.Effect{}
	case h.Sleep != nil:
		return hook.Effect{Serves: Seconds(h.Sleep.Seconds), Lasts: Seconds(h.Sleep.Seconds)}
	case h.Exec != nil:
		return hook.Read(h.Exec.Command)
	case h.HTTPGet != nil:
		return hook.Effect{Unread: fmt.Sprintf("httpGet :%s%s", h.HTTPGet.Port.String(), h.HTTPGet.Path)}
	}
	return hook.Effect{Unread: HookKind(h)}
}
