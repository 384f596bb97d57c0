package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/timeline"
)

// These tests are about UDP, where the kernel remembers, forgets and answers by itself. Each is headed by what was
// done, and what Lapse must say.

// Done: a Service's address is translated to one of two Pods, as kube-proxy does it. One Pod is gone without a word,
// and the rules lead to the other alone; but what connection tracking keeps of open sockets still leads to the first.
// Then these entries are removed, as kube-proxy does with those of an endpoint that has left. Lapse: new sockets are
// well all along; of kept ones those fail that had been led to the Pod that is gone, with silence, request after
// request; and all are well from when the entries are removed.
func TestTruthOfAStaleUDPTranslation(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft", "conntrack") {
		return
	}
	shell(t, "ip addr add 10.77.0.1/32 dev lo; ip addr add 10.77.0.2/32 dev lo; ip route add 10.77.0.9/32 dev lo src 10.77.0.2")
	for _, pod := range []string{"10.77.0.1:7", "10.77.0.2:7"} {
		runtest.ServeUDP(t, pod, func(datagram []byte) []byte { return datagram })
	}
	const nat = "table inet nat { chain out { type nat hook output priority -100; ip daddr 10.77.0.9 udp dport 7 dnat ip to %s\n}\n}"
	nft(t, fmt.Sprintf(nat, "numgen random mod 2 map { 0 : 10.77.0.1, 1 : 10.77.0.2 }"))
	p, release := startHeld(t, "udp://10.77.0.9:7", "--echo=ping {id}", "--rate=100", "--baseline=0", "--timeout=200ms", "--connections=8")
	runtest.WaitFor(t, "two seconds of requests", func() bool { return p.met(timeline.OK, 200) })
	gone := nft(t, "table inet test { chain in { type filter hook input priority 0; ip daddr 10.77.0.1 udp dport 7 drop\n}\n}\ndelete table inet nat\n"+fmt.Sprintf(nat, "10.77.0.2"))
	silent := p.count(timeline.Reused, timeline.TimeoutResponse)
	runtest.WaitFor(t, "50 more answers, and 50 requests without one", func() bool {
		return p.count(timeline.New, timeline.OK) >= 300 && p.count(timeline.Reused, timeline.TimeoutResponse) >= silent+50
	})
	shell(t, "conntrack -D -p udp --orig-dst 10.77.0.9")
	removed := time.Duration(time.Now().UnixNano())
	sent := p.count(timeline.Reused, timeline.OK)
	runtest.WaitFor(t, "100 more answers", func() bool { return p.count(timeline.Reused, timeline.OK) >= sent+100 })
	release()
	s := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)
	from, to, well := s.place(gone).From, s.place(gone).To, removed-time.Duration(s.tl.T0.UnixNano())
	stops := s.stops()
	for _, target := range s.judged() {
		failed, after := 0, 0
		for _, q := range s.failures(target.Name) {
			silence := q.Class == timeline.TimeoutResponse || q.Class == timeline.NoSlot // after a standstill many wait at once
			switch {
			case silence && (target.Kind == timeline.New || q.Done < from || q.Sent > well) && (meets(stops, q) || s.afterALongStop(q)):
				continue // the echo server stood still with this machine
			case !silence || q.Done < from || q.Sent > well:
				t.Errorf("%s: a request of %v is %s; the Pod was gone at %v, the entries at %v", target.Name, q.Sent, q.Class, to, well)
			case q.Sent > to+time.Second:
				after++
			}
			failed++
		}
		if target.Kind == timeline.New && failed > 10 || target.Kind == timeline.New && after > 0 || target.Kind == timeline.Reused && failed < 50 {
			t.Errorf("%s: %v", target.Name, target.Classes)
		}
		t.Logf("%s: %v", target.Name, target.Classes)
	}
}

// all reports whether n requests of each target, of which there are targets, have ended in one of these classes by
// now.
func (p *process) all(targets, n int, classes ...timeline.Class) bool {
	tl := p.peek()
	if tl == nil {
		return false
	}
	for _, t := range tl.Targets {
		ended := 0
		for _, class := range classes {
			ended += t.Classes[class.String()]
		}
		if t.Kind.Judged() && ended >= n {
			targets--
		}
	}
	return targets == 0
}

// count returns how many requests of a kind of connection have ended in a class by now.
func (p *process) count(kind timeline.TargetKind, class timeline.Class) (n int) {
	if tl := p.peek(); tl != nil {
		for _, t := range tl.Targets {
			if t.Kind == kind {
				n += t.Classes[class.String()]
			}
		}
	}
	return n
}

// Done: nobody listens on a port that the kernel also gives to clients, and of two ports that it has to give one is
// this. A socket of that port is connected to itself, and what it sends comes back. Lapse: the port is refused.
func TestTruthOfASocketConnectedToItself(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	shell(t, "echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range")
	p, release := startHeld(t, "udp://127.0.0.1:40000", "--echo=ping", "--rate=100", "--baseline=0", "--connections=1")
	runtest.WaitFor(t, "20 refusals of each target", func() bool { return p.all(2, 20, timeline.Refused) })
	release()
	s := p.robbed(t, verdict.ExitPassed, verdict.ExitInconclusive)
	for _, target := range s.judged() {
		if target.OK > 0 || target.Classes[timeline.Refused.String()] < 20 {
			t.Errorf("%s: %v", target.Name, target.Classes)
		}
	}
}

// Done: a server has an IPv6 address only, and this machine has no IPv6. Lapse: it is unreachable, at once.
func TestTruthOfAnIPv6ServerFromAMachineWithoutIPv6(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	shell(t, "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
	for _, target := range []string{"dns://[2001:db8::1]/web", "udp://[2001:db8::1]:7"} {
		args := []string{target, "--rate=100", "--baseline=0"}
		if strings.HasPrefix(target, "udp") {
			args = append(args, "--echo=ping {id}")
		}
		p, release := startHeld(t, args...)
		runtest.WaitFor(t, "20 failures of each target", func() bool { return p.all(2, 20, timeline.Unreachable) })
		release()
		s := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)
		stops := s.stops()
		for _, target := range s.judged() {
			for _, q := range s.failures(target.Name) {
				if q.Class != timeline.Unreachable || q.Done-q.Sent > 400*time.Millisecond && !meets(stops, q) {
					t.Errorf("%s: %s after %v", target.Name, q.Class, q.Done-q.Sent)
				}
			}
			if target.OK > 0 {
				t.Errorf("%s: %v", target.Name, target.Classes)
			}
		}
	}
}

// Done: a name has 50 addresses. Of the first name only the last one accepts, and the others refuse; of the second
// name none answers. Lapse: requests to the first are good, over TCP and HTTP; of the second each ends with its
// timeout, and nothing hangs.
func TestTruthOfANameWithFiftyAddresses(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	if !alone(t, "nft") {
		return
	}
	var hosts []string
	for i := range 50 {
		shell(t, fmt.Sprintf("ip addr add 10.77.0.%d/32 dev lo; ip addr add 10.77.1.%d/32 dev lo", i+1, i+1))
		hosts = append(hosts, fmt.Sprintf("10.77.0.%d refusing.test", i+1), fmt.Sprintf("10.77.1.%d silent.test", i+1))
	}
	names(t, hosts...)
	serveAt(t, "10.77.0.50:8080", nil)
	serveAt(t, "10.77.0.50:8081", nil)
	nft(t, "table inet test { chain in { type filter hook input priority 0; ip daddr 10.77.1.0/24 drop\n}\n}")
	p, release := startHeld(t, "http://refusing.test:8080/", "tcp://refusing.test:8081", "--rate=10", "--baseline=0", "--timeout=10s")
	runtest.WaitFor(t, "10 answers of each target", func() bool { return p.all(3, 10, timeline.OK) })
	release()
	well := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)
	for _, target := range well.judged() {
		if target.Failed > 0 {
			t.Errorf("%s: %v", target.Name, target.Classes)
		}
	}
	timeouts := []timeline.Class{timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot}
	p, release = startHeld(t, "http://silent.test:8080/", "tcp://silent.test:8081", "udp://silent.test:7", "--echo=ping", "--rate=20", "--baseline=0", "--timeout=300ms")
	runtest.WaitFor(t, "10 requests without an answer of each target, and one that is not our own fault", func() bool { // ours: the prober was stopped when its time was over
		return p.all(6, 10, append(timeouts, timeline.Local)...) && p.all(6, 1, timeouts...)
	})
	release()
	ill := p.ended(t, verdict.ExitPassed, verdict.ExitInconclusive)
	stops := ill.stops()
	for _, target := range ill.judged() {
		for _, q := range ill.facts.requests[target.Name] {
			if q.Class == timeline.DNS && ill.afterALongStop(q) {
				continue // 300 ms were over before /etc/hosts was read
			}
			late := q.Done-q.Sent > time.Second && !meets(stops, q) // Lapse itself stood still, for as long as the machine made it
			if q.Class == timeline.OK || q.Class.Failed() && !slices.Contains(timeouts, q.Class) || late {
				t.Errorf("%s: %s after %v", target.Name, q.Class, q.Done-q.Sent)
			}
		}
	}
}
