package run

import (
	"strings"
	"testing"

	"lapse/timeline"
)

func TestWhatLooksLikeCredentialsInACommandIsNotRecorded(t *testing.T) {
	for _, test := range []struct{ words, want []string }{
		{[]string{"kubectl", "drain", "node1", "--ignore-daemonsets"}, []string{"kubectl", "drain", "node1", "--ignore-daemonsets"}},
		{[]string{"curl", "-H", "Authorization: Bearer s3cret", "-H", "X-Team: s3cret"}, []string{"curl", "-H", "Authorization: ***", "-H", "X-Team: ***"}},
		{[]string{"curl", "--header=Authorization: Basic s3cret=="}, []string{"curl", "--header=Authorization: ***"}},
		{[]string{"kubectl", "--token", "s3cret", "get", "pods"}, []string{"kubectl", "--token", "***", "get", "pods"}},
		{[]string{"kubectl", "--token=s3cret", "get"}, []string{"kubectl", "--token=***", "get"}},
		{[]string{"kubectl", "--user", "admin", "get"}, []string{"kubectl", "--user", "admin", "get"}},
		{[]string{"curl", "-u", "me:s3cret", "http://you:s3cret@host/?api_key=s3cret&page=2"}, []string{"curl", "-u", "me:***", "http://you:***@host/?api_key=***&page=2"}},
		{[]string{"helm", "upgrade", "--set", "db.password=s3cret", "web"}, []string{"helm", "upgrade", "--set", "db.password=***", "web"}},
		{[]string{"env", "VAULT_TOKEN=s3cret", "deploy"}, []string{"env", "VAULT_TOKEN=***", "deploy"}},
		{[]string{"sh", "-c", `curl -H "Authorization: Bearer s3cret" x; PASSWORD='' tool --password s3cret --now`},
			[]string{"sh", "-c", `curl -H "Authorization: ***" x; PASSWORD='' tool --password *** --now`}},
		{[]string{"login", "eyJhbGciOi.eyJzdWIi.s3cret"}, []string{"login", "***"}},
		{[]string{"tool", "--password-stdin", "--verbose"}, []string{"tool", "--password-stdin", "--verbose"}},
	} {
		got, want := timeline.JoinCommand(maskCommand(test.words)), timeline.JoinCommand(test.want)
		if got != want || strings.Contains(got, "s3cret") {
			t.Errorf("%q is shown as\n\t%s, want\n\t%s", test.words, got, want)
		}
	}
}

func TestOutputLosesWhatLooksLikeCredentialsAndNothingElse(t *testing.T) {
	for line, want := range map[string]string{
		"> Authorization: Bearer s3cret":                          "> Authorization: ***",
		"set-cookie: id=s3cret; Path=/":                           "set-cookie: ***",
		"pod/web-1 evicted":                                       "pod/web-1 evicted",
		"node/node2 drained":                                      "node/node2 drained",
		`secret "web-tls" deleted`:                                `secret "web-tls" deleted`,
		"deployment.apps/web image updated":                       "deployment.apps/web image updated",
		"error: cannot delete Pods with local storage: web/web-1": "error: cannot delete Pods with local storage: web/web-1",
	} {
		if got := maskText(line); got != want {
			t.Errorf("%q is recorded as %q, want %q", line, got, want)
		}
	}
}
