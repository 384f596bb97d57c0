package hook

import (
	"testing"
	"time"
)

func TestWhatAHookSurelyDoes(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		command []string
		want    Effect
	}{
		{[]string{"sleep", "5"}, Effect{Serves: 5 * s, Lasts: 5 * s}},
		{[]string{"/bin/sleep", "1", "2m"}, Effect{Serves: 121 * s, Lasts: 121 * s}},
		{[]string{"sleep", "-5"}, Effect{Unread: "sleep -5"}},
		{[]string{"sleep", "infinity"}, Effect{Unread: "sleep infinity"}},
		{[]string{"nginx", "-s", "quit"}, Effect{Stops: "nginx -s quit"}},
		{[]string{"/drain-and-wait"}, Effect{Unread: "/drain-and-wait"}},
		{sh("sleep 5"), Effect{Serves: 5 * s, Lasts: 5 * s}},
		{sh("sleep 5; nginx -s quit; sleep 10"), Effect{Serves: 5 * s, Lasts: 5 * s, Stops: "nginx -s quit"}},
		{sh("sleep 5 && /usr/sbin/nginx -s quit"), Effect{Serves: 5 * s, Lasts: 5 * s, Stops: "/usr/sbin/nginx -s quit"}},
		{sh("/bin/drain; sleep 10"), Effect{Lasts: 10 * s, Unread: "/bin/drain"}},
		{sh("/bin/drain && sleep 10"), Effect{Unread: "/bin/drain"}},
		{[]string{"sh", "-ec", "/bin/drain; sleep 10"}, Effect{Unread: "/bin/drain"}},
		{sh("set -e; /bin/drain; sleep 10"), Effect{Unread: "/bin/drain"}},
		{sh("sleep 5 & sleep 1"), Effect{Serves: s, Lasts: s}},
		{sh("kill -USR1 1; sleep 5"), Effect{Lasts: 5 * s, Unread: "kill -USR1 1"}},
		{sh("kill -s QUIT $(pidof nginx); sleep 5"), Effect{Stops: "kill -s QUIT $(pidof nginx)"}},
		{sh("rm -f /tmp/ready || true; { sleep 2; sleep 3; }"), Effect{Serves: 5 * s, Lasts: 5 * s}},
		{sh("(sleep 2); echo 'bye; bye' >&2; exit 0; sleep 9"), Effect{Serves: 2 * s, Lasts: 2 * s}},
		{sh("exec sleep 4; sleep 9"), Effect{Serves: 4 * s, Lasts: 4 * s}},
		{sh("PORT=80 env A=b sleep 3"), Effect{Serves: 3 * s, Lasts: 3 * s}},
		{sh("bash -c 'sleep 2; nginx -s quit'"), Effect{Serves: 2 * s, Lasts: 2 * s, Stops: "nginx -s quit"}},
		{sh("while pgrep nginx; do sleep 1; done"), Effect{Unread: "while pgrep nginx; do sleep 1; done"}},
		{sh("sleep 3; if x; then y; fi"), Effect{Serves: 3 * s, Lasts: 3 * s, Unread: "sleep 3; if x; then y; fi"}},
		{sh("sleep 'unclosed"), Effect{Unread: "sleep 'unclosed"}},
		{sh("sleep $DELAY"), Effect{Unread: "sleep $DELAY"}},
		{sh(`sl\eep "5"`), Effect{Serves: 5 * s, Lasts: 5 * s}},
	} {
		if got := Read(test.command); got != test.want {
			t.Errorf("%q: %+v, want %+v", test.command, got, test.want)
		}
	}
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestScriptsThatPassSIGTERMOn(t *testing.T) {
	for script, want := range map[string]bool{
		"exec server":                          true,
		"a && exec server \"$@\"":              true,
		"exec server $(which x)":               true,
		"if x; then exec a; else exec b; fi":   true,
		"trap 'kill $PID' TERM; server & wait": true,
		"exec setup; server":                   false,
		"server":                               false,
		"a && b":                               false,
		"echo exec server":                     false,
		"exec 2>&1; server":                    false,
		"exec 'unclosed":                       false,
	} {
		if got := PassesSIGTERM(script); got != want {
			t.Errorf("%q: %v, want %v", script, got, want)
		}
	}
}
