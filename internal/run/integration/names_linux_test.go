package integration

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"lapse/correlate/verdict"
	"lapse/internal/cli"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/timeline"
)

// These tests are about names with several addresses, of services and of name servers. Each is headed by what was
// done, and what Lapse must say.

// names makes these lines the only ones of /etc/hosts.
func names(t *testing.T, lines ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(path, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount another /etc/hosts: %v", err)
	}
}

// Done: names have an address that is served, and one to which there is no way from here: an IPv6 address on a
// machine without IPv6, and one without a route. Then the service is refused for a while. Lapse: what was refused
// failed, as refused; nothing is put down to ourselves or to the way.
func TestTruthOfANameWithAnAddressOutOfReach(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "ip addr add 10.77.0.1/32 dev lo; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
	names(t, "10.77.0.1 one.test two.test", "2001:db8::1 one.test", "10.99.0.1 two.test")
	serveAt(t, "10.77.0.1:8080", nil)
	p, release := startHeld(t, "http://one.test:8080/", "http://two.test:8080/", "--rate=100", "--baseline=0", "--timeout=10s", "--fail-if=failed>0")
	runtest.WaitFor(t, "some requests", func() bool { tl := p.peek(); return tl != nil && tl.Verdict.Sent >= 100 })
	refusing := nft(t, "table inet test { chain in { type filter hook input priority 0; tcp dport 8080 reject with tcp reset\n}\n}")
	runtest.WaitFor(t, "5 refusals of each target", func() bool { return p.all(4, 5, timeline.Refused) })
	nft(t, "delete table inet test")
	release()
	s := p.ended(t, verdict.ExitGateFailed)
	for _, target := range s.judged() {
		for _, q := range s.failures(target.Name) {
			// A request that was under way when the refusing began has a connection to be reset.
			if connected := target.Kind == timeline.Reused || q.Sent <= s.place(refusing).To; q.Class != timeline.Refused && (q.Class != timeline.Reset || !connected) {
				t.Errorf("%s: request %d is %s", target.Name, q.Seq, q.Class)
			}
		}
		if target.Classes[timeline.Refused.String()] < 5 {
			t.Errorf("%s: only these failed: %v", target.Name, target.Classes)
		}
		if target.FailedAddresses != nil {
			t.Errorf("%s: an address that was not tried has failed: %+v", target.Name, target.FailedAddresses)
		}
	}
}

// Done: the first SYN of each connection is dropped, and the timeout is less than twice the second that the kernel
// waits before it sends another; the name has a further address, without a route. Lapse: good answers, slow ones.
func TestTruthOfAPatienceThatIsNotShared(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "ip addr add 10.77.0.1/32 dev lo")
	names(t, "10.77.0.1 web.test", "10.99.0.1 web.test")
	serveAt(t, "10.77.0.1:8080", nil)
	nft(t, `table inet test {
		set met { type inet_service; flags dynamic; size 65535; }
		chain in { type filter hook input priority 0;
			tcp dport 8080 tcp flags & (syn|ack) == syn tcp sport != @met add @met { tcp sport } drop
		}
	}`)
	p, release := startHeld(t, "http://web.test:8080/", "--rate=20", "--target=new", "--baseline=0", "--timeout=1900ms")
	runtest.WaitFor(t, "10 answers", func() bool { return p.met(timeline.OK, 10) })
	release()
	s := p.robbed(t, verdict.ExitPassed, verdict.ExitInconclusive)
	slow := 0
	for _, q := range s.facts.requests["new"] {
		if q.Class == timeline.OK && q.Connect.Duration() > time.Second {
			slow++
		}
	}
	failed := slices.DeleteFunc(s.failures("new"), func(q timeline.Request) bool { return q.Class.Timeout() && s.afterALongStop(q) })
	if slow < 10 || len(failed) > 0 {
		t.Errorf("%d came late, and %d failed: %+v", slow, len(failed), failed)
	}
}

// Done: the first of a name's two addresses answers no SYN, and there are few local ports. Lapse: each good answer
// took the half of the timeout that the first address was given; once ports rest, there are no good answers without
// it; and the report names the address.
func TestTruthOfADeadAddressBeforeAGoodOne(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "ip addr add 10.77.0.1/32 dev lo; ip addr add 10.77.0.9/32 dev lo; echo 40000 40099 >/proc/sys/net/ipv4/ip_local_port_range")
	names(t, "10.77.0.9 web.test", "10.77.0.1 web.test")
	serveAt(t, "10.77.0.1:8080", nil)
	nft(t, "table inet test { chain in { type filter hook input priority 0; ip daddr 10.77.0.9 tcp dport 8080 drop\n}\n}")
	p, release := startHeld(t, "http://web.test:8080/", "--rate=100", "--target=new", "--baseline=0", "--timeout=400ms")
	runtest.WaitFor(t, "good answers, and none for want of ports", func() bool { return p.met(timeline.OK, 10) && p.met(timeline.Local, 10) })
	release()
	s := p.robbed(t, verdict.ExitPassed, verdict.ExitInconclusive)

	target := s.judged()[0]
	for _, q := range s.facts.requests[target.Name] {
		if q.Class == timeline.OK && q.Connect.Duration() < 150*time.Millisecond {
			t.Errorf("request %d connected after %v without an answer of the first address", q.Seq, q.Connect.Duration())
		}
	}
	if target.OK < 10 || target.Classes[timeline.Local.String()] < 10 || target.Failed > target.OK {
		t.Errorf("%v", target.Classes)
	}
	if len(target.FailedAddresses) != 1 {
		t.Fatalf("failed addresses: %+v", target.FailedAddresses)
	}
	if got := target.FailedAddresses[0]; got.Addr != "10.77.0.9" || got.Class != timeline.TimeoutConnect.String() || got.Connections < 1 || got.Connections > len(s.facts.requests[target.Name]) {
		t.Errorf("%+v for %v", got, target.Classes)
	}
	var table strings.Builder
	cli.Main(t.Context(), []string{"lapse", "report", s.dir}, &table, t.Output())
	if words := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(words, "10.77.0.9 failed (timeout_connect) before another address answered, for ") {
		t.Errorf("the table does not name the dead address:\n%s", table.String())
	}
	t.Logf("%v, %+v", target.Classes, target.FailedAddresses)
}

// Done: there are two name servers, of which the second is at an address out of reach; then the first one is refused
// for a while. Lapse: each failure is a dns failure, and none is put down to ourselves.
func TestTruthOfANameServerOutOfReach(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	shell(t, "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
	nameServer(t, func(dnsmessage.Question) (*[4]byte, dnsmessage.RCode, bool) { return &[4]byte{127, 0, 0, 1}, 0, true }, "nameserver ::1", "options attempts:1")
	server := runtest.StartServer(t)
	_, port, _ := net.SplitHostPort(server.Addr().String())
	p, release := startHeld(t, "http://web.test.:"+port+"/", "--rate=200", "--target=new", "--baseline=0", "--fail-if=failed>0")
	runtest.WaitFor(t, "50 answers", func() bool { return server.Answered() >= 50 })
	refused := time.Now()
	nft(t, "table inet test { chain in { type filter hook input priority 0; udp dport 53 reject\n}\n}")
	runtest.WaitFor(t, "20 failures", func() bool { return p.failedSince(refused) >= 20 })
	nft(t, "delete table inet test")
	release()
	s := p.ended(t, verdict.ExitGateFailed)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	failed := s.failures("new")
	for _, q := range failed {
		if q.Class != timeline.DNS && (!q.Class.Timeout() || !s.afterALongStop(q)) {
			t.Errorf("request %d is %s", q.Seq, q.Class)
		}
	}
	if len(failed) < 5 {
		t.Errorf("%d requests failed", len(failed))
	}
}
