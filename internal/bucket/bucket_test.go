package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/hint"
)

// The real server that this is held against is in tools/s3. Here are answers that it does not give.

func keyed(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_SESSION_TOKEN": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
	} {
		t.Setenv(name, value)
	}
}

func opened(t *testing.T, h http.HandlerFunc) *Bucket {
	t.Helper()
	keyed(t)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	b, err := Open("s3://runs/prod", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatNamesNoBucketIsRefused(t *testing.T) {
	keyed(t)
	for _, tt := range []struct{ location, endpoint, says string }{
		{"runs", "", `"runs" is no s3://BUCKET/PREFIX`},
		{"s3://", "", "is no s3://BUCKET/PREFIX"},
		{"s3://Runs/a", "", "is no s3://BUCKET/PREFIX"},
		{"s3://runs/a?b", "", "is no s3://BUCKET/PREFIX"},
		{"s3://runs/a", "minio:9000", `"minio:9000" is no URL of an S3 server`},
		{"s3://runs/a", "http://minio:9000/runs", "is no URL of an S3 server"},
	} {
		if _, err := Open(tt.location, tt.endpoint); err == nil || !strings.Contains(err.Error(), tt.says) || hint.Of(err) == "" {
			t.Errorf("%q at %q: %v", tt.location, tt.endpoint, err)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if _, err := Open("s3://runs", ""); err == nil || !strings.Contains(hint.Of(err), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("without a key: %v", err)
	}
}

func TestWhereABucketIsAsked(t *testing.T) {
	keyed(t)
	t.Setenv("AWS_REGION", "eu-central-1")
	for endpoint, want := range map[string]string{
		"":                  "https://runs.s3.eu-central-1.amazonaws.com/",
		"http://minio:9000": "http://minio:9000/runs/",
	} {
		if b, err := Open("s3://runs//prod/", endpoint); err != nil || b.root.String() != want || b.String() != "s3://runs/prod" {
			t.Errorf("%v %s, %v; want %s", b, b.root.String(), err, want)
		}
	}
	if b, err := Open("s3://runs.example.com", ""); err != nil || b.root.String() != "https://s3.eu-central-1.amazonaws.com/runs.example.com/" {
		t.Errorf("no certificate is for two labels: %s, %v", b.root.String(), err)
	}
	t.Setenv("AWS_REGION", "cn-north-1") // whose addresses end otherwise, as minio-go knows of STS
	if b, err := Open("s3://runs", ""); err != nil || b.root.String() != "https://runs.s3.cn-north-1.amazonaws.com.cn/" {
		t.Errorf("in China: %s, %v", b.root.String(), err)
	}
	t.Setenv("AWS_ENDPOINT_URL", "https://s3.example.com")
	if b, err := Open("s3://runs", ""); err != nil || b.root.Host != "s3.example.com" || b.String() != "s3://runs/" {
		t.Errorf("%+v, %v", b, err)
	}
}

// Each refusal is told in words, and whether to try again.
func TestRefusals(t *testing.T) {
	code := func(code string) string { return "<Error><Code>" + code + "</Code><Message>Sorry.</Message></Error>" }
	ahead := func(w http.ResponseWriter) {
		w.Header().Set("Date", time.Now().Add(-20*time.Minute).UTC().Format(http.TimeFormat))
	}
	for _, tt := range []struct {
		status  int
		body    string
		header  func(http.ResponseWriter)
		says    string
		lasting bool
	}{
		{404, code("NoSuchBucket"), nil, "there is no such bucket at 127.0.0.1", true},
		{403, code("InvalidAccessKeyId"), nil, "the access key ID is unknown", true},
		{403, code("SignatureDoesNotMatch"), nil, "the secret access key is wrong", true},
		{403, code("AccessDenied"), nil, "the key has no right to do that", true},
		{403, code("RequestTimeTooSkewed"), ahead, "the clocks differ: that of this machine is 20m", false},
		{301, code("PermanentRedirect"), func(w http.ResponseWriter) { w.Header().Set("X-Amz-Bucket-Region", "eu-west-1") }, "the bucket is in the region eu-west-1, and not in us-east-1: set AWS_REGION", true},
		{400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>", nil, "in the region eu-west-1", true},
		{503, code("SlowDown"), nil, "answers 503 SlowDown: Sorry.", false},
		{500, "oops", nil, "answers 500 Internal Server Error, not as an S3 server", false},
		{409, code("OperationAborted"), nil, "answers 409 OperationAborted: Sorry.", false},
		{429, code("TooManyRequests"), nil, "answers 429", false},
		{400, code("RequestTimeout"), nil, "answers 400 RequestTimeout", false},
		{405, "<html>", nil, "not as an S3 server", true},
	} {
		b := opened(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.header != nil {
				tt.header(w)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})
		err := b.Check(t.Context())
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Lasting() != tt.lasting || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
	}
}

// Nothing of a refused request stays: the watch over it would live on for a minute.
func TestARefusedRequestIsWatchedNoLonger(t *testing.T) {
	keyed(t)
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4<<10))
			_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		})
		began := make(chan context.Context, 1)
		dial := b.client.Transport.(*http.Transport)
		b.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			began <- r.Context()
			return dial.RoundTrip(r)
		})
		if _, err := b.Get(t.Context(), "a"); err == nil || (<-began).Err() == nil {
			t.Errorf("%v, and the request goes on", err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// All pages of a list are read.
func TestALongListIsReadToItsEnd(t *testing.T) {
	pages := map[string]string{
		"":   "<Contents><Key>prod/history/a</Key></Contents><IsTruncated>true</IsTruncated><NextContinuationToken>+2</NextContinuationToken>",
		"+2": "<Contents><Key>prod/history/b</Key></Contents><IsTruncated>false</IsTruncated>",
	}
	b := opened(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/runs/" || r.FormValue("prefix") != "prod/history/" {
			t.Errorf("asked %s", r.URL)
		}
		fmt.Fprintf(w, "<ListBucketResult>%s</ListBucketResult>", pages[r.FormValue("continuation-token")])
	})
	if keys, err := b.List(t.Context(), HistoryDir); err != nil || strings.Join(keys, " ") != "history/a history/b" {
		t.Errorf("%q, %v", keys, err)
	}
}

// What is not the whole list is an error: a history without its later pages, or that of a web server, would look short.
func TestWhatIsNoWholeListIsAnError(t *testing.T) {
	for _, answer := range []string{
		"<html><body>Sign in</body></html>",
		"<ListBucketResult><Contents><Key>prod/history/a</Key></Contents><IsTruncated>true</IsTruncated></ListBucketResult>",
		"<ListBucketResult><Contents><Key>prod/history/a</Key></Contents>",
		"<ListBucketResult><Contents><Key>prod/history/a</Key></Contents><IsTruncated>true</IsTruncated>" +
			"<NextContinuationToken>same</NextContinuationToken></ListBucketResult>",
		"",
	} {
		b := opened(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
		if keys, err := b.List(t.Context(), HistoryDir); err == nil || !strings.HasPrefix(err.Error(), "127.0.0.1:") {
			t.Errorf("%s: %q, %v", answer, keys, err)
		}
	}
}

// piped returns a bucket whose server reads from and writes to the other end of a pipe.
func piped(t *testing.T, serve func(net.Conn)) *Bucket {
	t.Helper()
	b, err := Open("s3://runs", "http://s3.example.com")
	if err != nil {
		t.Fatal(err)
	}
	transport := b.client.Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go serve(there)
		return here, nil
	}
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

// A server that takes an object slowly gets it whole. One that stands still is left after a minute, before the object
// and after it.
func TestASlowServerIsWaitedForAndADeadOneIsNot(t *testing.T) {
	keyed(t)
	slowly := func(bytes int) func(net.Conn) {
		return func(c net.Conn) {
			buffer := make([]byte, 100<<10)
			for read := 0; read < bytes; {
				n, err := c.Read(buffer)
				if err != nil {
					return
				}
				read += n
				time.Sleep(20 * time.Second)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}
	const size = 300 << 10
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		stall bool
	}{
		"slow":            {slowly(size), false},
		"reads nothing":   {func(net.Conn) {}, true},
		"answers nothing": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := piped(t, tt.serve).Put(t.Context(), "a", strings.NewReader(strings.Repeat("x", size)))
			if took := time.Since(began); tt.stall && (!errors.Is(err, errStalled) || took != stall) || !tt.stall && (err != nil || took < stall) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
