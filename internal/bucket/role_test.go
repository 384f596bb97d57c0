package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An amazon is S3, STS and the agent of EKS Pod Identity at their own addresses, over pipes instead of TLS. It answers
// as https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html and
// https://github.com/aws/eks-pod-identity-agent do. The keys of a role end after an hour.
type amazon struct {
	t       *testing.T
	roles   string // where they are asked for
	token   string // of the ServiceAccount
	refuses func(http.ResponseWriter)

	asked int
	ends  time.Time // of the newest key
	put   int
}

const (
	sts   = "sts.eu-central-1.amazonaws.com/"
	other = "sts.example.com/" // as $AWS_ENDPOINT_URL_STS says
	agent = "169.254.170.23/v1/credentials"
	arn   = "arn:aws:iam::123456789012:role/lapse"
)

func (a *amazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch at := r.Host + r.URL.Path; {
	case at == a.roles:
		a.asked++
		if a.refuses != nil {
			a.refuses(w)
			return
		}
		a.ends = time.Now().Add(time.Hour)
		a.role(w, r)
	case strings.HasPrefix(at, "runs.s3.eu-central-1.amazonaws.com/"):
		a.object(w, r)
	default:
		a.t.Errorf("asked %s", at)
	}
}

// role gives the key of the role, whose ID and token have a number.
func (a *amazon) role(w http.ResponseWriter, r *http.Request) {
	if a.roles == agent {
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != a.token {
			a.t.Errorf("the agent was asked by %s with %v", r.Method, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"AccessKeyId":"ASIA%d","SecretAccessKey":"secret","Token":"session-%[1]d","AccountId":"123456789012",`+
			`"Expiration":"%s"}`, a.asked, a.ends.Format(time.RFC3339Nano))
		return
	}
	for name, want := range map[string]string{
		"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": arn, "WebIdentityToken": a.token,
	} {
		if got := r.PostFormValue(name); got != want {
			a.t.Errorf("STS was asked with %s=%s, not %s", name, got, want)
		}
	}
	if r.PostFormValue("RoleSessionName") == "" || r.Method != http.MethodPost {
		a.t.Errorf("STS was asked by %s with %v", r.Method, r.PostForm)
	}
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:lapse:lapse-guard</SubjectFromWebIdentityToken>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <Arn>arn:aws:sts::123456789012:assumed-role/lapse/1</Arn>
      <AssumedRoleId>AROACLKWSDQRAOEXAMPLE:1</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <SessionToken>session-%d</SessionToken>
      <SecretAccessKey>secret</SecretAccessKey>
      <Expiration>%s</Expiration>
      <AccessKeyId>ASIA%[1]d</AccessKeyId>
    </Credentials>
    <Provider>arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLE</Provider>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata>
    <RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId>
  </ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>`, a.asked, a.ends.UTC().Format(time.RFC3339))
}

// object takes an object that is signed with the newest key, if that has not ended.
func (a *amazon) object(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	signed, token := r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token")
	if !strings.Contains(signed, fmt.Sprintf("Credential=ASIA%d/", a.asked)) || token != fmt.Sprintf("session-%d", a.asked) ||
		!strings.Contains(signed, ";x-amz-security-token") {
		a.t.Errorf("signed by %s with the token %q, after %d answers", signed, token, a.asked)
	}
	if !time.Now().Before(a.ends) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
		return
	}
	a.put++
}

// opens returns a bucket whose key is that of a Pod's role, and the file with the token of its ServiceAccount.
func (a *amazon) opens(t *testing.T) (b *Bucket, tokenFile string) {
	t.Helper()
	keyed(t)
	tokenFile = filepath.Join(t.TempDir(), "token")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_REGION", "eu-central-1")
	if a.roles == other {
		t.Setenv("AWS_ENDPOINT_URL_STS", "https://"+other)
	}
	if a.roles == agent { // what EKS sets
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://"+agent)
		t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", tokenFile)
	} else {
		t.Setenv("AWS_ROLE_ARN", arn)
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", tokenFile)
	}
	a.renew(tokenFile, "token-1")
	b, err := Open("s3://runs/prod", "")
	if err != nil {
		t.Fatal(err)
	}
	pipes := make(listener)
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(pipes) }() // until it is closed
	transport := b.client.Transport.(*http.Transport)
	transport.DialContext = pipes.dial
	transport.DialTLSContext = pipes.dial
	t.Cleanup(func() { transport.CloseIdleConnections(); _ = server.Close() })
	return b, tokenFile
}

// renew writes another token of the ServiceAccount, as the kubelet does.
func (a *amazon) renew(file, token string) {
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.token = token
}

// A listener accepts pipes.
type listener chan net.Conn

func (l listener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	l <- there
	return here, nil
}

func (l listener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l listener) Close() error   { close(l); return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// A Pod's role signs with a session token. Its key is asked for once, and again before it ends, with the token that the
// ServiceAccount has then: over a day no object is refused.
func TestARolesKeyIsRenewedBeforeItEnds(t *testing.T) {
	for _, roles := range []string{sts, other, agent} {
		synctest.Test(t, func(t *testing.T) {
			a := &amazon{t: t, roles: roles}
			b, file := a.opens(t)
			const puts = 24 * 12
			for n := range puts {
				if n == puts/2 {
					a.renew(file, "token-2")
				}
				if err := b.Put(t.Context(), "a", strings.NewReader("text")); err != nil {
					t.Fatalf("%s: after %d objects: %v", roles, n, err)
				}
				time.Sleep(5 * time.Minute) // of virtual time
			}
			if a.put != puts || a.asked < 24 || a.asked > 48 {
				t.Errorf("%s: %d objects, %d keys in 24 hours", roles, a.put, a.asked)
			}
		})
	}
}

// Who refuses the role, and why, is told, and whether to try again.
func TestARefusedRoleIsTold(t *testing.T) {
	answers := func(status int, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, text, status) }
	}
	says := func(status int, code, message string) func(http.ResponseWriter) {
		return answers(status, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>`+
			code+`</Code><Message>`+message+`</Message></Error><RequestId>4f42-EXAMPLE</RequestId></ErrorResponse>`)
	}
	for _, tt := range []struct {
		roles   string
		refuses func(http.ResponseWriter)
		says    string
		lasting bool
	}{
		{sts, says(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"),
			"the IAM role gives no key: sts.eu-central-1.amazonaws.com answers 403 AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity", true},
		{sts, says(400, "ExpiredTokenException", "Token expired"), "answers 400 ExpiredTokenException: Token expired", true},
		{sts, says(400, "IDPCommunicationError", "later"), "answers 400 IDPCommunicationError: later", false},
		{sts, says(400, "InvalidIdentityToken", "no OpenIDConnect provider found"), "no OpenIDConnect provider found", false},
		{sts, says(400, "Throttling", "Rate exceeded"), "answers 400 Throttling", false},
		{sts, answers(503, ""), "answers 503 Service Unavailable", false},
		{sts, answers(200, "<html>"), "the IAM role gives no key: ", false},
		{agent, answers(400, "[7f2c]: (AccessDeniedException): Unauthorized Exception! EKS does not have permissions to assume the associated role., fault: client"),
			"the IAM role gives no key: 169.254.170.23 answers 400 [7f2c]: (AccessDeniedException): Unauthorized Exception!", true},
		{agent, answers(429, "Too Many Requests. "), "answers 429 Too Many Requests.", false},
		{agent, answers(500, "unable to reach EKS Auth"), "answers 500 unable to reach EKS Auth", false},
		{agent, answers(200, "{}"), "the IAM role gives no key: the answer has none", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &amazon{t: t, roles: tt.roles, refuses: tt.refuses}
			b, _ := a.opens(t)
			err := b.Check(t.Context())
			r, refused := errors.AsType[*Refusal](err)
			if err == nil || !strings.Contains(err.Error(), tt.says) || (refused && r.Lasting()) != tt.lasting || a.put > 0 {
				t.Errorf("%v; want %s", err, tt.says)
			}
			a.refuses = nil
			if err := b.Check(t.Context()); err != nil || a.put != 1 {
				t.Errorf("once it is allowed: %v", err)
			}
		})
	}
}

// That the token of the ServiceAccount cannot be read is no error of the file that is put.
func TestATokenThatIsNotThereIsNoErrorOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, token := (&amazon{t: t, roles: sts}).opens(t)
		if err := os.Remove(token); err != nil {
			t.Fatal(err)
		}
		err := b.Put(t.Context(), "a", strings.NewReader("text"))
		if _, file := errors.AsType[*fs.PathError](err); err == nil || file || !strings.Contains(err.Error(), token) {
			t.Errorf("%v", err)
		}
	})
}
