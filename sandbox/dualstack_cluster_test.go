//go:build cluster

package main

import (
	"strings"
	"testing"
)

// Both families work for Pods, Services, names, node ports, the load balancer and the ingress, in both proxy modes.
func TestDualStack(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			r.up("--nodes", "2", "--proxy-mode", mode, "--families", dualStack, "--lb", "--ingress")
			if out, code := r.try("up", "--nodes", "2", "--proxy-mode", mode); code != exitProblem ||
				!strings.Contains(out, dualStack) {
				t.Errorf("up with one family: exit %d, %s", code, out)
			}
			r.apply(strings.Replace(web, "spec: {selector",
				"spec: {type: LoadBalancer, ipFamilyPolicy: RequireDualStack, selector", 1))
			r.apply(webIngress)
			r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
			soon(t, "two pods are ready", func() bool { return len(r.pods()) == 2 })
			pods := r.pods()
			addrs := strings.Fields(r.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"))
			if len(addrs) != 2 || !strings.HasPrefix(addrs[0], "10.96.") ||
				!strings.HasPrefix(addrs[1], "fd00:10:96::") {
				t.Fatalf("clusterIPs %v", addrs)
			}
			for pod := range pods {
				r.answers(pod, "http://"+addrs[0]+"/", pods)
				r.answers(pod, "http://["+addrs[1]+"]/", pods)
				r.answers(pod, "http://web/", pods)
			}
			nodePort := r.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
			soon(t, "an address of each family", func() bool {
				return r.balancerAddress("web") == balancerFirst+" "+balancerFirst6
			})
			for _, addr := range []string{
				balancerFirst, "[" + balancerFirst6 + "]", "10.200.0.2", "[fd00:10:200::2]", "10.200.0.12:" + nodePort,
				"[fd00:10:200::12]:" + nodePort,
			} {
				r.answersOutside(addr, pods)
			}
		})
	}
}

// A kernel without IPVS is told apart from a wrong flag, before anything is made; with it, the cluster works.
func TestIPVSWorksOrIsSaidToBeMissing(t *testing.T) {
	r := newRig(t)
	if err := theKernel.can(upOptions{proxyMode: "ipvs", families: "ipv4"}); err != nil {
		out, code := r.try("up", "--proxy-mode", "ipvs")
		if code != exitProblem || !strings.Contains(out, "--proxy-mode ipvs: ") ||
			!strings.Contains(out, "or choose iptables or nftables") {
			t.Errorf("exit %d, %s", code, out)
		}
		return
	}
	r.up("--nodes", "2", "--proxy-mode", "ipvs")
	r.apply(web)
	r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
	pods := r.pods()
	for pod := range pods {
		r.answers(pod, "http://web/", pods)
	}
}
