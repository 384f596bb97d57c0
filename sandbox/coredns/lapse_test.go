package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/erratic"
	_ "github.com/coredns/coredns/plugin/hosts"
)

// A document is what these tests read of timeline.json.
type document struct {
	Targets []struct {
		Name    string         `json:"name"`
		Kind    string         `json:"kind"`
		Sent    int            `json:"sent"`
		OK      int            `json:"ok"`
		Failed  int            `json:"failed"`
		Classes map[string]int `json:"classes"`
	} `json:"targets"`
	Events []struct {
		Kind   string `json:"kind"`
		Lookup struct {
			Addrs []string `json:"addrs"`
		} `json:"lookup"`
		Detail string `json:"detail"`
	} `json:"events"`
}

// What CoreDNS, which nobody here wrote, answers to `lapse run dns://…`: addresses, an answer that does not fit into
// a packet, and that it failed, and with its plugin erratic nothing at all to every third query.
func TestLapseAsksCoreDNS(t *testing.T) {
	dnsserver.Directives = []string{"bind", "erratic", "hosts"}
	server := freePort(t)
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, "10.1.0.%d many.test\n", i+1)
	}
	instance, err := caddy.Start(caddy.CaddyfileInput{ServerTypeName: "dns", Filepath: "Corefile", Contents: fmt.Appendf(nil, `
test:%[1]s {
	bind 127.0.0.1
	hosts {
		10.0.0.1 web.test
		10.0.0.2 web.test
		fd00::1 web.test
		%[2]s
	}
}
erratic:%[1]s {
	bind 127.0.0.1
	erratic {
		drop 3
	}
}
`, server, many.String())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(instance.Stop()); err != nil {
			t.Error(err)
		}
		instance.Wait()
	}()
	lapse := filepath.Join(t.TempDir(), "lapse")
	build := exec.Command("go", "build", "-o", lapse, "./cmd/lapse")
	build.Dir, build.Stderr = filepath.Join("..", ".."), t.Output()
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		target string
		addrs  []string
		class  string // of the failures; all failed, or of "some" a third
		note   string
	}{
		{"web.test", []string{"10.0.0.1", "10.0.0.2"}, "", ""},
		{"web.test?type=AAAA", []string{"fd00::1"}, "", ""},
		{"wbe.test", nil, "dns", "SERVFAIL"}, // as its plugin hosts answers where no plugin follows
		{"many.test", nil, "body", "cut off (TC)"},
		{"www.erratic", []string{"192.0.2.53"}, "some", ""},
	} {
		t.Run(test.target, func(t *testing.T) {
			timeout := "5s" // longer than a machine stands still, with the server in this process; so is the run
			if test.class == "some" {
				timeout = "500ms"
			}
			run := exec.Command(lapse, "run", "dns://127.0.0.1:"+server+"/"+test.target, "--rate=50", "--baseline=0",
				"--duration=2500ms", "--timeout="+timeout, "--target=new", "--out="+t.TempDir()+"/run", "-o=json")
			run.Env, run.Stderr = append(os.Environ(), "KUBECONFIG=/nonexistent"), t.Output()
			out, _ := run.Output() // the exit code tells of gates
			var d document
			if err := json.Unmarshal(out, &d); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, target := range d.Targets {
				switch {
				case target.Kind == "control":
				case test.class == "" && (target.Failed > 0 || target.OK < 10),
					test.class == "some" && (target.Classes["timeout_response"] != target.Failed ||
						target.Failed < target.Sent/5 || target.OK < target.Sent/3),
					test.class != "" && test.class != "some" &&
						(target.OK > 0 || target.Failed < 3 || target.Classes[test.class] != target.Failed):
					t.Errorf("%+v", target)
				}
			}
			answered, noted := false, test.note == ""
			for _, e := range d.Events {
				answered = answered || e.Kind == "name-answered" && slices.Equal(e.Lookup.Addrs, test.addrs)
				noted = noted || e.Kind == "request-error" && strings.Contains(e.Detail, test.note)
			}
			if test.addrs != nil && !answered || !noted {
				t.Errorf("answered %v, noted %v: %+v", answered, noted, d.Events)
			}
		})
	}
}

// freePort is a port that is free over TCP and UDP: CoreDNS takes both.
func freePort(t *testing.T) string {
	t.Helper()
	for range 20 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if c, err := net.ListenPacket("udp", listener.Addr().String()); err == nil {
			defer c.Close()
			_, port, _ := net.SplitHostPort(c.LocalAddr().String())
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}
