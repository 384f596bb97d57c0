package integration

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"lapse/loadgen/faultserver"
)

// inNamespace, in the environment, names the test that a process runs in a network of its own.
const inNamespace = "LAPSE_TEST_NAMESPACE"

// alone reports whether the test has a network and mounts of its own, where it can do what it likes to packets, names
// and local ports. If not, it runs the test again in a process that has, and reports what came of that.
func alone(t *testing.T, needs ...string) bool {
	t.Helper()
	if os.Getenv(inNamespace) == t.Name() {
		shell(t, "ip link set lo up")
		return true
	}
	for _, tool := range append(needs, "ip") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test shapes a network of its own, for which it needs %s: %v\nhint: sandbox/needs.sh installs it", tool, err)
		}
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	again.Env = append(os.Environ(), inNamespace+"="+t.Name())
	again.Stdout, again.Stderr = t.Output(), t.Output()
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	switch err := again.Run(); {
	case errors.Is(err, syscall.EPERM) && os.Geteuid() != 0:
		t.Fatalf("this test needs the right to make a network and a mount namespace (CAP_SYS_ADMIN): %v\nhint: run the tests as root", syscall.EPERM)
	case err != nil:
		t.Errorf("in a network of its own: %v", err)
	}
	return false
}

func shell(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// nft changes the namespace's packet filter, and returns when: no sooner than From, no later than To.
func nft(t *testing.T, rules string) faultserver.Span {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	from := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, out, rules)
	}
	return faultserver.Span{From: time.Duration(from.UnixNano()), To: time.Duration(time.Now().UnixNano())}
}

// elements counts the members of a set of the packet filter whose first part is port.
func elements(t *testing.T, set string, port uint16) (n int) {
	t.Helper()
	out, err := exec.Command("nft", "-j", "list", "set", "inet", "test", set).Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed struct {
		Nftables []struct {
			Set struct {
				Elem []struct{ Concat []uint16 }
			}
		}
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	for _, object := range listed.Nftables {
		for _, e := range object.Set.Elem {
			if len(e.Concat) > 0 && e.Concat[0] == port {
				n++
			}
		}
	}
	return n
}

// nameServer makes a name server on the loopback interface the first one of this namespace. answer says how it
// answers a question: with an address and a code, or not at all. lines follow it in resolv.conf.
func nameServer(t *testing.T, answer func(dnsmessage.Question) (addr *[4]byte, code dnsmessage.RCode, answers bool), lines ...string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(append([]string{"nameserver 127.0.0.1"}, lines...), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(conf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount another /etc/resolv.conf: %v", err)
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		packet := make([]byte, 1500)
		for {
			n, client, err := socket.ReadFrom(packet)
			if err != nil {
				return
			}
			if reply := reply(packet[:n], answer); reply != nil {
				_, _ = socket.WriteTo(reply, client)
			}
		}
	}()
	t.Cleanup(func() {
		_ = socket.Close()
		<-over
	})
}

// reply returns a name server's reply to a packet; nil: none.
func reply(packet []byte, answer func(dnsmessage.Question) (*[4]byte, dnsmessage.RCode, bool)) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	addr, code, answers := answer(m.Questions[0])
	if !answers {
		return nil
	}
	m.Header.Response, m.Header.RecursionAvailable, m.Header.RCode = true, true, code
	m.Additionals = nil
	if addr != nil && m.Questions[0].Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: *addr},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}
