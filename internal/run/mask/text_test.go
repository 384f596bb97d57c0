package mask

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
		got, want := timeline.JoinCommand(Command(test.words)), timeline.JoinCommand(test.want)
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
		if got := Text(line); got != want {
			t.Errorf("%q is recorded as %q, want %q", line, got, want)
		}
	}
}

// Each line holds a credential, which is written s3cret, or is named behind the line.
func TestSpellingsOfCredentialsAreMasked(t *testing.T) {
	for _, test := range [][]string{
		// YAML
		{"password: s3cret"}, {"token: s3cret"}, {"  - password: s3cret"}, {`db_password: "s3cret"`}, {"password: 's3cret two'", "two"},
		{"password: s3cret and more words", "more words"}, {"client-key-data: s3cret"}, {"{user: me, password: s3cret}"},
		{"+   password: s3cret"}, {"passphrase: s3cret"}, {"apiToken: s3cret"}, {"api_key: s3cret"}, {"? password : s3cret"},
		// JSON
		{`"password": "s3cret"`}, {`{"token":"s3cret"}`}, {`{"stringData":{"api_key": "s3cret"}}`}, {`{"stringData":{"any": "s3cret"}}`},
		{`{"auth":"s3cret"}`}, {`{"user":"me","pass":"a\"s3cret","x":1}`}, {`{\"password\":\"s3cret\"}`}, {`{"a":"{\\\"token\\\":\\\"s3cret\\\"}"}`},
		{`{"Authorization":"Bearer s3cret"}`}, {`{'password': 's3cret'}`}, {`{"password":12345678}`, "12345678"}, {`{"name":"DB_PASSWORD","value":"s3cret"}`},
		{`{"data":{"x":"czNjcmV0czNj"}}`, "czNj"}, {`{"accessToken" : "s3cret", "expires": 3}`},
		// shells, properties, ini, HCL
		{`TOKEN="s3cret two"`, "two"}, {`TOKEN='s3cret two'`, "two"}, {"export DB_PASS=s3cret"}, {"PGPASSWORD=s3cret psql"}, {`PASSWORD=a"b c"s3cret`},
		{"aws_secret_access_key = s3cret"}, {"private_key=s3cret"}, {"access_key=s3cret"}, {"pwd=s3cret"}, {"db.passphrase=s3cret"},
		{"spring.datasource.password=s3cret"}, {`password   = "s3cret"`}, {`  ~ password = "s3cret" -> "s3cretnew"`}, {"password := s3cret"},
		{"'password' => 's3cret'"}, {"DB_PASSWORD_PROD=s3cret"}, {"$TOKEN = 's3cret'"}, {"set -x; SECRET_KEY=s3cret,s3cret"}, {`sh -c "TOKEN='s3cret' run"`},
		{`sh -c 'TOKEN="s3cret two" run'`, "two"}, {"REDISCLI_AUTH=s3cret"}, {"user[password]=s3cret"},
		// connection strings, URLs, queries, forms
		{"Server=db;User Id=me;Password=s3cret;Encrypt=true"}, {"AccountName=a;AccountKey=s3cret==;EndpointSuffix=x"}, {"https://s3cretTOKEN@host/x"},
		{"postgres://me:s3cret@db:5432/app"}, {"postgres://me:a/s3cret@db/app"}, {"redis://:s3cret@cache:6379"}, {"amqp://a:b@s3cret@mq"},
		{"https://blob/x?sv=1&sig=s3cret%3D&se=2"}, {"https://x/?access_token=s3cret#f"}, {"https://x/?key=s3cret&a=b"}, {"X-Amz-Signature=s3cret&a=b"},
		{"grant=x&client_secret=s3cret&scope=a"}, {"token%3Ds3cret"}, {"git clone https://oauth2:s3cret@gitlab/x.git"},
		{"jdbc:postgresql://db/app?user=me&password=s3cret"},
		// XML, HTML
		{"<password>s3cret</password>"}, {`<user name="me" password="s3cret"/>`}, {`<add key="ApiToken" value="s3cret"/>`}, {"password=&quot;s3cret&quot;"},
		// headers
		{"Authorization: Basic s3cret="}, {"Authorization=Basic s3cret"}, {"> x-api-key: s3cret"}, {"Cookie: a=s3cret; b=s3cret"},
		{"Proxy-Authorization: Digest a=b, c=s3cret"}, {"X-Vault-Token:s3cret"}, {"auth with Bearer s3cret-value.x"}, {`"Bearer s3cretabcdef"`},
		{"authorization basic YWRtaW46aHVudGVy", "YWRt"},
		// known tokens
		{"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}, {"x gho_16C7e42F292c6912E7710c838347Ae178B4a y", "16C7"}, {"github_pat_11ABCDEFG0abcdefgh_ijkl", "11AB"},
		{"glpat-abcDEF123456ghi", "abcDEF"}, {"xoxb-123456789012-abcdefABCDEF", "123456"}, {"AKIAIOSFODNN7EXAMPLE", "IOSF"}, {"ASIAIOSFODNN7EXAMPLE", "IOSF"},
		{"AIzaSyA1234567890abcdefghijklmnopqrstu", "SyA1"}, {"got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_DEF-123", "abc_DEF"},
		{"sk-proj-abc123DEF456ghi789", "abc123"}, {"sk-abc123DEF456ghi789jkl", "abc123"}, {"npm_abcdefABCDEF0123456789abcdefABCDEF01", "abcdef"},
		{"sk_live_abcdef0123456789", "abcdef"}, {"hvs.CAESIabcdef0123456789", "CAES"}, {"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXX", "B0000"},
		{"-----BEGIN PRIVATE KEY-----\\ns3cret\\n-----END PRIVATE KEY-----"}, {"sha256~abcdefghijklmnopqrstuvwxyz", "abcdef"},
		// prose, netrc, tables of kubectl
		{"generated password: s3cret"}, {"API key: s3cret"}, {"Secret Access Key: s3cret"}, {"machine host login me password s3cret"},
		{"Your new token is: token=s3cret."}, {"msg=\"login\" password=s3cret user=me"}, {"level=info token=\"s3cret two\" a=b", "two"},
		// flags in a script
		{"curl -H 'X-Auth: s3cret' x"}, {"curl '-HX-Auth: s3cret' x"}, {"curl -uuser:s3cret x"}, {"curl --user=user:s3cret x"}, {"tool --password s3cret --now"},
		{"mysql -uroot -ps3cret db"}, {"docker login -u me -p s3cret host"}, {"sshpass -p s3cret ssh h"}, {"redis-cli -a s3cret ping"},
		{"kubectl create secret generic x --from-literal=key=s3cret"}, {"kubectl create secret generic x --from-literal key=s3cret"},
	} {
		secret := "s3cret"
		if len(test) > 1 {
			secret = test[1]
		} else if !strings.Contains(test[0], secret) {
			secret = test[0]
		}
		if got := Text(test[0]); strings.Contains(got, secret) || strings.Contains(got, "s3cret") || !strings.Contains(got, Hidden) {
			t.Errorf("%s\n\tis shown as %s", test[0], got)
		}
	}
}

func TestCredentialsInArgumentsAreMasked(t *testing.T) {
	for _, test := range []struct{ words, want []string }{
		{[]string{"curl", "-HX-Auth: s3cret"}, []string{"curl", "-HX-Auth: ***"}},
		{[]string{"curl", "--header=X-A: s3cret"}, []string{"curl", "--header=X-A: ***"}},
		{[]string{"curl", "-uuser:s3cret", "--proxy-user", "u:s3cret"}, []string{"curl", "-uuser:***", "--proxy-user", "u:***"}},
		{[]string{"curl", "--user=u:s3cret", "-b", "id=s3cret"}, []string{"curl", "--user=u:***", "-b", "***"}},
		{[]string{"kubectl", "create", "secret", "generic", "x", "--from-literal=key=s3cret"}, []string{"kubectl", "create", "secret", "generic", "x", "--from-literal=key=***"}},
		{[]string{"kubectl", "create", "secret", "generic", "x", "--from-literal", "key=s3cret"}, []string{"kubectl", "create", "secret", "generic", "x", "--from-literal", "key=***"}},
		{[]string{"kubectl", "patch", "x", "-p", `{"token":"s3cret"}`}, []string{"kubectl", "patch", "x", "-p", `{"token":"***"}`}},
		{[]string{"kubectl", "patch", "x", `-p={"data":{"a":"czNjcmV0czNj"}}`}, []string{"kubectl", "patch", "x", `-p={"data":{"a":"***"}}`}},
		{[]string{"kubectl", "create", "secret", "docker-registry", "x", "--docker-password=s3cret"}, []string{"kubectl", "create", "secret", "docker-registry", "x", "--docker-password=***"}},
		{[]string{"mysql", "-uroot", "-ps3cret", "db"}, []string{"mysql", "-uroot", "-p***", "db"}},
		{[]string{"docker", "login", "-u", "me", "-p", "s3cret", "host"}, []string{"docker", "login", "-u", "me", "-p", "***", "host"}},
		{[]string{"aws", "configure", "set", "aws_secret_access_key", "s3cret"}, []string{"aws", "configure", "set", "aws_secret_access_key", "***"}},
		{[]string{"git", "-c", "http.extraHeader=Authorization: Basic s3cret", "pull"}, []string{"git", "-c", "http.extraHeader=Authorization: ***", "pull"}},
		{[]string{"docker", "run", "-u", "1000:1000", "-p", "8080:80", "-e", "TOKEN=s3cret", "x"}, []string{"docker", "run", "-u", "1000:1000", "-p", "8080:80", "-e", "TOKEN=***", "x"}},
		{[]string{"kubectl", "delete", "secret", "web-token"}, []string{"kubectl", "delete", "secret", "web-token"}},
		{[]string{"kubectl", "get", "secret", "web-token", "-o", "yaml"}, []string{"kubectl", "get", "secret", "web-token", "-o", "yaml"}},
		{[]string{"kubectl", "--as", "me", "set", "image", "deploy/web", "web=web:2"}, []string{"kubectl", "--as", "me", "set", "image", "deploy/web", "web=web:2"}},
		{[]string{"tool", "--token-file", "/run/token", "--token-ttl=5m"}, []string{"tool", "--token-file", "/run/token", "--token-ttl=5m"}},
		{[]string{"sh", "-c", "tool --password=$PASSWORD"}, []string{"sh", "-c", "tool --password=$PASSWORD"}},
	} {
		got, want := timeline.JoinCommand(Command(test.words)), timeline.JoinCommand(test.want)
		if got != want {
			t.Errorf("%q is shown as\n\t%s, want\n\t%s", test.words, got, want)
		}
	}
}

func TestCredentialsOfSeveralLinesAreMasked(t *testing.T) {
	for _, text := range []string{
		"-----BEGIN RSA PRIVATE KEY-----\nMIIs3cret\nabcs3cret=\n-----END RSA PRIVATE KEY-----\nafter it",
		"  key: |\n    -----BEGIN EC PRIVATE KEY-----\n    s3cret\n    -----END EC PRIVATE KEY-----\nafter it",
		"password: |\n  s3cret\n  s3cret\nafter it",
		"spec:\n  - token: >-\n      s3cret\n      s3cret\n    after it: yes",
		"password:\n  s3cret\nafter it",
		"export TOKEN=\"s3cret\ns3cret\"\nafter it",
		"TOKEN='s3cret\nmore s3cret' after it",
		"env:\n- name: DB_PASSWORD\n  value: s3cret\n- name: MODE\n  value: after it",
		"\"env\": [\n{\n\"name\": \"API_KEY\",\n\"value\": \"s3cret\"\n},\n{\n\"name\": \"MODE\",\n\"value\": \"after it\"\n}",
		"stringData:\n  any: s3cret\n  config: |\n    s3cret\n  other: s3cret\nkind: after it",
		"\"stringData\": {\n    \"any\": \"s3cret\"\n},\n\"kind\": \"after it\"",
	} {
		if got := Text(text); strings.Contains(got, "s3cret") || !strings.Contains(got, "after it") {
			t.Errorf("%s\n\tis shown as\n%s", text, got)
		}
	}
	data := "data:\n  user: YWRtaW5pc3RyYXRvcg==\n  any.key: czNjcmV0czNj\nkind: Secret"
	if got, want := Text(data), "data:\n  user: ***\n  any.key: ***\nkind: Secret"; got != want {
		t.Errorf("a Secret is shown as\n%s", got)
	}
}

func TestWhatIsNoCredentialStaysReadable(t *testing.T) {
	for _, line := range []string{
		"pod/web-token-7d9f8 evicted", `secret "web-tls" deleted`, "secret/web-token created", "serviceaccount/token-reader unchanged",
		"deployment.apps/auth restarted", "token bucket: 10 of 20 left", "token bucket full", "password policy updated", "Password policy: updated",
		"error: token expired", "Error: token: the server has asked for the client to provide credentials", "error: invalid token: unauthorized",
		"web-token   kubernetes.io/service-account-token   3      5d", "NAME  TYPE  DATA  AGE", "tokens per second: 40", "max_tokens: 4096", "token_type: bearer",
		"secretName: web-tls", "  secretKeyRef:", "imagePullSecrets:", "- name: regcred", "automountServiceAccountToken: true", "Tokens:              web-token-abcde",
		"Mountable secrets:   web-token", "password:  8 bytes", "      DB_PASSWORD:  <set to the key 'password' in secret 'db'>  Optional: false",
		`MountVolume.SetUp failed for volume "token" : secret "web-token" not found`, `I1125 "Syncing" secret="shop/web-tls"`, "--- PASS: TestDrain (0.00s)",
		"pass=12 fail=0", "PWD=/root", "http://auth:8080/healthz", "svc/token:8080", "tcp://auth.shop.svc:443", "dial tcp: lookup auth.shop: no such host",
		"image: registry.local/secret-operator:v1.2", "Basic authentication is off", "bearer authentication failed", "ssh://deploy@host/repo", "git@github.com:org/token-repo.git",
		"--token-file=/run/token", "tokenExpirationSeconds: 3607", "TOKEN=$(cat /run/token)", "key: value", "public_key_algorithm=rsa",
		"Author: me", "compass: north", "node/node1 cordoned", "evicting pod shop/web-5d4f-x2", "error when evicting pods/\"web\" -n \"shop\": Cannot evict pod as it would violate the pod's disruption budget.",
		"Warning: ignoring DaemonSet-managed Pods: kube-system/kube-proxy-abc12", "time=10:11:12 level=info msg=\"secret rotated\"", "12 tokens, 3 secrets and 1 password",
		"waiting for deployment \"auth\" rollout to finish: 1 old replicas are pending termination...", "the key 'password' of secret db is missing", "sk-learn and task-runner",
	} {
		if got := Text(line); got != line {
			t.Errorf("%s\n\tis shown as %s", line, got)
		}
	}
}

func FuzzMaskingTakesAnyText(f *testing.F) {
	f.Add("password: \"x\\\" y\ntoken: |\n  z")
	f.Add("--header=X: 'a -uroot:b -----BEGIN X----- data: {")
	f.Fuzz(func(t *testing.T, text string) {
		Text(text)
		Command(strings.Split(text, " "))
	})
}
