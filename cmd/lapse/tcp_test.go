package main

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/run"
)

// serveEcho sends back what comes, until the test ends, and returns where.
func serveEcho(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func TestEscapesAreGos(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", ""}, {"ping", "ping"}, {`PING\r\n`, "PING\r\n"}, {`\x00\xff\\`, "\x00\xff\\"}, {`"quoted" 'é' \u00e9`, `"quoted" 'é' é`}, {"raw\n", "raw\n"},
	}
	for _, test := range tests {
		if got, err := run.Unescape(test.text); err != nil || got != test.want {
			t.Errorf("%q is %q (%v), want %q", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{`\`, `\q`, `ping\x1`} {
		if _, err := run.Unescape(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

// The agent measures what the workstation was asked to: its command line passes its own check, and says the same again.
func TestAgentIsToldOfTCP(t *testing.T) {
	for _, flags := range [][]string{
		{"--scheme=tcp"},
		{"--scheme=tcp", `--echo=PING\r\n`, `--expect-body=+PONG\r\n`},
		{"--scheme=tcp", "--echo=ping", "--target=reused", "--pacing=precise"},
	} {
		var here, agent run.Options
		check := func(o *run.Options, args []string) []string {
			t.Helper()
			cmd := &cobra.Command{}
			runFlags(o, cmd)
			if err := cmd.ParseFlags(args); err != nil {
				t.Fatal(err)
			}
			if err := o.Check(cmd.Flags().Args(), nil); err != nil {
				t.Fatal(err)
			}
			return o.AgentArgs("shop")
		}
		t.Setenv(deploy.EnvListen, "")
		told := check(&here, append([]string{"svc/web:6379", "--duration=1s"}, flags...))
		for name, value := range map[string]string{
			deploy.EnvListen: "127.0.0.1:0", deploy.EnvHold: "1m", deploy.EnvDeadline: "2h", deploy.EnvPrivate: string(here.PrivateFlags()),
		} {
			t.Setenv(name, value)
		}
		again := check(&agent, told[1:])
		if !slices.Equal(told, again) || agent.Sent != here.Sent || agent.Pacing != here.Pacing || agent.Awaited != here.Awaited || strings.Join(agent.Kinds, " ") != strings.Join(here.Kinds, " ") {
			t.Errorf("told %q, understood %q", told, again)
		}
	}
}
