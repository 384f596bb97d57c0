package s3

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/versity/versitygw/iamapi/storage"
	"github.com/versity/versitygw/iamapi/types"

	"lapse/internal/bucket"
)

// The rights that docs/reference/security.md names, for s3://runs/prod.
const (
	guardRights = `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::runs/prod/*"}]}`
	trendRights = `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::runs",
		 "Condition": {"StringLike": {"s3:prefix": "prod/history/*"}}},
		{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::runs/prod/history/*"}]}`
)

// serveTo is serve with users, roles and their rights.
func serveTo(t *testing.T, give func(storage.Storer) error) string {
	t.Helper()
	dir := t.TempDir()
	store, err := storage.NewInternal(dir)
	if err == nil {
		err = give(store)
	}
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	start(t, "unix", socket, "--port", filepath.Join(dir, "iam"), "iam", "--dir", dir, "--private-ports", socket)
	return serve(t, "--iam-standalone-endpoint", socket)
}

func mayDo(t *testing.T, store storage.Storer, user, rights string) error {
	t.Helper()
	_, err := store.CreateUser(t.Context(), types.User{
		Path: "/", UserName: user, UserID: "AIDA" + user, Arn: "arn:aws:iam::000000000000:user/" + user,
	})
	if err != nil {
		return err
	}
	if _, err := store.CreateAccessKey(t.Context(), storage.CreateAccessKeyInput{
		UserName: user, AccessKeyID: "AKIA" + user, SecretAccessKey: secret, Status: "Active", CreateDate: time.Now(),
	}); err != nil {
		return err
	}
	return store.PutUserPolicy(t.Context(), storage.PutUserPolicyInput{
		UserName: user, PolicyName: "lapse", PolicyDocument: rights,
	})
}

// A guard's key may be allowed to write below the prefix, and nothing else; that of who asks for a trend to list and read
// the history. Neither can then do more.
func TestTheseRightsAreEnough(t *testing.T) {
	endpoint := serveTo(t, func(store storage.Storer) error {
		if err := mayDo(t, store, "GUARD", guardRights); err != nil {
			return err
		}
		return mayDo(t, store, "TREND", trendRights)
	})
	guard := open(t, "s3://runs/prod", endpoint, "AKIAGUARD", secret)
	trend := open(t, "s3://runs/prod", endpoint, "AKIATREND", secret)
	line, facts := bucket.LinesKey("lapse-1", time.Now()), bucket.FileKey("lapse-1", "facts.lapse")
	for _, key := range []string{line, facts} {
		if err := guard.Put(t.Context(), key, strings.NewReader(key)); err != nil {
			t.Error(err)
		}
	}
	if err := guard.Check(t.Context()); err != nil {
		t.Error(err)
	}
	keys, err := trend.List(t.Context(), bucket.HistoryDir)
	if err != nil || len(keys) != 1 || keys[0] != line {
		t.Errorf("the history is %q, %v", keys, err)
	}
	if err := trend.GetAll(t.Context(), keys, func(_ string, text io.Reader) error {
		if got, err := io.ReadAll(text); err != nil || string(got) != line {
			t.Errorf("%s is %q, %v", line, got, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	get := func(b *bucket.Bucket, key string) error {
		body, err := b.Get(t.Context(), key)
		if err == nil {
			body.Close()
		}
		return err
	}
	list := func(b *bucket.Bucket, begin string) error { _, err := b.List(t.Context(), begin); return err }
	put := func(b *bucket.Bucket) error { return b.Put(t.Context(), line, strings.NewReader("other")) }
	for what, err := range map[string]error{
		"a guard's key lists the history":  list(guard, bucket.HistoryDir),
		"a guard's key reads a line":       get(guard, line),
		"a guard's key reads a run":        get(guard, facts),
		"a guard's key writes elsewhere":   put(open(t, "s3://runs/test", endpoint, "AKIAGUARD", secret)),
		"a trend's key lists other things": list(trend, ""),
		"a trend's key reads a run":        get(trend, facts),
		"a trend's key writes":             put(trend),
	} {
		if err == nil || !strings.Contains(err.Error(), "AccessDenied") && !strings.Contains(err.Error(), "no right to do that") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A real server takes what a role signs, whose session token it knows, from the agent of EKS Pod Identity or out of the
// environment, and nothing that is signed without it.
func TestARealServerTakesARolesToken(t *testing.T) {
	session := types.Session{
		AccessKeyId: "ASIAEXAMPLE", SecretAccessKey: secret, SessionToken: "session/token+1==",
		RoleArn: "arn:aws:iam::000000000000:role/lapse", RoleName: "lapse", RoleID: "AROAEXAMPLE", RoleSessionName: "guard",
		CreateDate: time.Now(), Expiration: time.Now().Add(time.Hour),
	}
	endpoint := serveTo(t, func(store storage.Storer) error {
		if _, err := store.CreateRole(t.Context(), types.Role{
			Path: "/", RoleName: session.RoleName, RoleID: session.RoleID, Arn: session.RoleArn, MaxSessionDuration: 3600,
		}); err != nil {
			return err
		}
		if err := store.PutRolePolicy(t.Context(), storage.PutRolePolicyInput{
			RoleName: session.RoleName, PolicyName: "lapse", PolicyDocument: guardRights,
		}); err != nil {
			return err
		}
		_, err := store.CreateSession(t.Context(), session)
		return err
	})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Authorization"); r.URL.Path != "/v1/credentials" || token != "of the ServiceAccount" {
			t.Errorf("the agent was asked %s with %q", r.URL, token)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"AccessKeyId": session.AccessKeyId, "SecretAccessKey": secret,
			"Token": session.SessionToken, "AccountId": "000000000000", "Expiration": session.Expiration})
	}))
	defer agent.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of the ServiceAccount"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
	if err := open(t, "s3://runs/prod", endpoint, "", "").Check(t.Context()); err != nil {
		t.Errorf("with the agent's key: %v", err)
	}
	for given, says := range map[string]string{session.SessionToken: "", "": "access key ID", "other": "InvalidToken"} {
		t.Setenv("AWS_SESSION_TOKEN", given)
		err := open(t, "s3://runs/prod", endpoint, session.AccessKeyId, secret).Check(t.Context())
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("with the token %q: %v", given, err)
		}
	}
}

// Who is on the way to a server without TLS can read what is put there, and not change it.
func TestWhatIsChangedOnItsWayIsRefused(t *testing.T) {
	endpoint, err := url.Parse(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	change := func(text []byte) []byte { return text }
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(endpoint)
		r.Out.Host = r.In.Host // which is signed
		text, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(change(text)))
	}})
	defer proxy.Close()
	b := open(t, "s3://runs/prod", proxy.URL, key, secret)
	if err := b.Check(t.Context()); err != nil {
		t.Error(err)
	}
	change = bytes.ToUpper
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA256") {
		t.Errorf("what was changed: %v", err)
	}
}
