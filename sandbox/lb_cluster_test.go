//go:build cluster

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The load balancer gives a Service an address, follows nodes that die, leave and come back, cuts connections after
// its delay, and leaves nothing.
func TestLoadBalancer(t *testing.T) {
	r := newRig(t)
	r.up("--nodes", "2")
	r.must("lb", "up", "--interval", "300ms", "--sync", "300ms", "--unhealthy", "2", "--deregistration-delay", "1s")
	if out, code := r.try("lb", "up"); code != exitProblem || !strings.Contains(out, "up already") {
		t.Errorf("a second lb up: exit %d, %s", code, out)
	}
	r.apply(web)
	r.kubectl("patch", "service", "web", "-p", `{"spec":{"type":"LoadBalancer"}}`)
	r.kubectl("rollout", "status", "deployment/web", "--timeout="+patience.String())
	addr := r.balancerAddress("web")
	if addr != balancerFirst {
		t.Errorf("the first address is %s", addr)
	}
	soon(t, "both nodes are healthy", func() bool { return r.nodeStates() == "node1 healthy, node2 healthy" })
	r.answersOutside(addr, r.pods())

	// A node whose kube-proxy is gone is unhealthy; one that is excluded drains, and is forgotten.
	r.must("exec", "node2", "--", "nft", "add table ip t; add chain ip t c { type filter hook input priority 0; }; "+
		"add rule ip t c tcp dport 10256 drop")
	soon(t, "node2 is unhealthy", func() bool { return r.nodeStates() == "node1 healthy, node2 unhealthy" })
	r.must("exec", "node2", "--", "nft", "delete table ip t")
	soon(t, "node2 is healthy again", func() bool { return r.nodeStates() == "node1 healthy, node2 healthy" })
	held := r.hold(addr)
	r.kubectl("label", "node", "node1", "node2", "node.kubernetes.io/exclude-from-external-load-balancers=")
	soon(t, "no node is left", func() bool { return r.nodeStates() == "" })
	held.isCut(t)
	r.kubectl("label", "node", "node1", "node2", "node.kubernetes.io/exclude-from-external-load-balancers-")
	soon(t, "both nodes are back", func() bool { return r.nodeStates() == "node1 healthy, node2 healthy" })
	r.answersOutside(addr, r.pods())

	r.must("restart", "lb")
	soon(t, "the load balancer is back", func() bool { return r.nodeStates() == "node1 healthy, node2 healthy" })
	if again := r.balancerAddress("web"); again != addr {
		t.Errorf("after a restart the address is %s, it was %s", again, addr)
	}
	kill(r.process(balancerProcess).PID)
	r.must("lb", "down")
	if left := r.kubectl("get", "service", "web", "-o", "jsonpath={.status.loadBalancer}"); left != "{}" {
		t.Errorf("after lb down the status is %s", left)
	}
	if rules := r.must("exec", "lb", "--", "nft", "list", "ruleset"); rules != "" {
		t.Errorf("after lb down there are rules:\n%s", rules)
	}
	if out := r.must("exec", "lb", "--", "ip", "-o", "-4", "address", "show", "dev",
		"eth0"); strings.Count(out, "\n") != 1 {
		t.Errorf("after lb down there are addresses:\n%s", out)
	}
	if left := r.must("exec", "lb", "--", "conntrack", "-L", "--orig-dst", addr); strings.Contains(left, "dst="+addr) {
		t.Errorf("after lb down there are connections, which a new one from the same port would follow:\n%s", left)
	}
	if out := r.must("lb", "down"); !strings.Contains(out, "no load balancer") {
		t.Errorf("the second lb down says %q", out)
	}
	r.must("up", "--nodes", "2", "--lb") // of one that is up
	soon(t, "the Service has an address", func() bool { return r.balancerAddress("web") == balancerFirst })
	kill(r.process(balancerProcess).PID) // and down, in the end, finds nothing of it
}

func (r *rig) balancerAddress(service string) (addr string) {
	r.t.Helper()
	soon(r.t, "an address", func() bool {
		addr = r.kubectl("get", "service", service, "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
		return addr != ""
	})
	return addr
}

var statusLine = regexp.MustCompile(`(?m)(node[0-9]) +([a-z]+)`)

// nodeStates are those of lb status: "node1 healthy, node2 draining".
func (r *rig) nodeStates() string {
	r.t.Helper()
	out, _ := r.try("lb", "status")
	var all []string
	for _, m := range statusLine.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1]+" "+m[2])
	}
	return strings.Join(all, ", ")
}

// answersOutside asks an address from outside of the nodes until each of the pods has answered.
func (r *rig) answersOutside(addr string, pods map[string]string) {
	r.t.Helper()
	binary := r.workloadBinary()
	silent := map[string]bool{}
	for name := range pods {
		silent[name] = true
	}
	soon(r.t, fmt.Sprintf("answers of %v through %s", pods, addr), func() bool {
		out, _ := r.try("exec", "outside", "--", binary, "get", "http://"+addr+"/")
		for name := range silent {
			if strings.Contains(out, "200 "+name) {
				delete(silent, name)
			}
		}
		return len(silent) == 0
	})
}

// A heldConnection is one that a client outside keeps open, and speaks on again and again.
type heldConnection struct{ ended chan string }

func (r *rig) hold(addr string) heldConnection {
	r.t.Helper()
	const script = `trap '' PIPE; exec 3<>/dev/tcp/%s/80; while printf 'GET /count HTTP/1.1\r\nHost: x\r\n\r\n' >&3 && read -t 2 -r line <&3; do echo "$line"; sleep 0.2; done; echo cut`
	cmd := r.command("exec", "outside", "--", "bash", "-c", fmt.Sprintf(script, addr))
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	h := heldConnection{make(chan string, 1)}
	first := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := out.Read(first); err != nil || string(first) != "HTTP/1.1 200 OK" {
		r.t.Fatalf("%q, %v", first, err)
	}
	go func() {
		var all strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := out.Read(buffer)
			all.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
		h.ended <- all.String()
	}()
	return h
}

func (h heldConnection) isCut(t *testing.T) {
	t.Helper()
	select {
	case said := <-h.ended:
		if !strings.HasSuffix(said, "cut\n") {
			t.Errorf("the connection ended with %q", said)
		}
	case <-time.After(patience):
		t.Error("the connection was not cut")
	}
}
