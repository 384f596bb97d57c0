// Package bucket reads and writes objects in a bucket of Amazon S3, or of a server that speaks its protocol, such as
// MinIO or Ceph. minio-go signs requests and finds keys; the rest of an S3 library would take a megabyte more.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"lapse/internal/hint"
)

// A Bucket is a bucket with a prefix of keys. Any goroutine may use it.
type Bucket struct {
	name   string
	prefix string  // of all keys; empty, or it ends with a slash
	root   url.URL // of the bucket's keys
	region string
	keys   *credentials.Credentials
	client *http.Client
}

// Scheme begins what names a bucket.
const Scheme = "s3://"

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]$`)
	prefixForm = regexp.MustCompile(`^[-A-Za-z0-9._=/]*$`)
)

// Open returns what s3://BUCKET/PREFIX names at the URL of an S3 server, default $AWS_ENDPOINT_URL, or else Amazon's of
// $AWS_REGION. It asks nothing yet. The keys are in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or those of the role
// that EKS gives to a Pod.
func Open(location, endpoint string) (*Bucket, error) {
	rest, ok := strings.CutPrefix(location, Scheme)
	name, prefix, _ := strings.Cut(rest, "/")
	if !ok || !nameForm.MatchString(name) || !prefixForm.MatchString(prefix) {
		return nil, hint.Errorf("as in s3://my-bucket/lapse", "%q is no s3://BUCKET/PREFIX", location)
	}
	b := &Bucket{name: name, region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		b.prefix = prefix + "/"
	}
	if endpoint = cmp.Or(endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")); endpoint == "" {
		b.root = url.URL{Scheme: "https", Host: "s3." + b.region + ".amazonaws.com", Path: "/"}
		if strings.HasPrefix(b.region, "cn-") {
			b.root.Host += ".cn"
		}
		if strings.Contains(name, ".") { // the certificate is for one label
			b.root.Path += name + "/"
		} else {
			b.root.Host = name + "." + b.root.Host
		}
	} else {
		at, err := url.Parse(endpoint)
		web := err == nil && (at.Scheme == "http" || at.Scheme == "https")
		if !web || at.Host == "" || strings.Trim(at.Path, "/") != "" {
			return nil, hint.Errorf("as in http://minio.storage:9000", "%q is no URL of an S3 server", endpoint)
		}
		b.root = url.URL{Scheme: at.Scheme, Host: at.Host, Path: "/" + name + "/"}
	}
	b.client = &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: atOnce,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var err error
	b.keys, err = findKeys()
	return b, err
}

// String returns s3://BUCKET/PREFIX.
func (b *Bucket) String() string { return Scheme + b.name + "/" + strings.TrimSuffix(b.prefix, "/") }

// Put writes an object from where body is to its end. The server compares its SHA-256.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	sum := sha256.New()
	size, err := io.Copy(sum, body)
	if err != nil {
		return err
	}
	if _, err := body.Seek(-size, io.SeekCurrent); err != nil {
		return err
	}
	reply, err := b.do(ctx, http.MethodPut, key, nil, body, size, hex.EncodeToString(sum.Sum(nil)))
	if err != nil {
		return err
	}
	return reply.Close()
}

// Get returns an object. The caller closes it.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	return b.do(ctx, http.MethodGet, key, nil, http.NoBody, 0, emptySum)
}

const (
	atOnce   = 16      // objects are asked for
	mostText = 1 << 20 // bytes of an object that is read whole
)

// GetAll calls read with each object, one at a time in the order of keys.
func (b *Bucket) GetAll(ctx context.Context, keys []string, read func(key string, text io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type got struct {
		text []byte
		err  error
	}
	all := make(chan chan got, atOnce)
	var getting sync.WaitGroup
	defer getting.Wait()
	getting.Go(func() {
		defer close(all)
		for _, key := range keys {
			one := make(chan got, 1)
			select {
			case all <- one:
			case <-ctx.Done():
				return
			}
			getting.Go(func() {
				body, err := b.Get(ctx, key)
				if err != nil {
					one <- got{err: err}
					return
				}
				text, err := io.ReadAll(io.LimitReader(body, mostText+1))
				if err == nil && len(text) > mostText {
					err = fmt.Errorf("it is larger than %d bytes: no guard has written it", mostText)
				}
				one <- got{text, errors.Join(err, body.Close())}
			})
		}
	})
	i := 0
	for one := range all {
		g := <-one
		if g.err == nil {
			g.err = read(keys[i], bytes.NewReader(g.text))
		}
		if g.err != nil {
			cancel()
			return fmt.Errorf("%s%s: %w", b.prefix, keys[i], g.err)
		}
		i++
	}
	return ctx.Err()
}

// emptySum is the SHA-256 of nothing.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// List returns the keys that begin with a text, in the order of their bytes.
func (b *Bucket) List(ctx context.Context, begin string) (keys []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix + begin}}
	for {
		reply, err := b.do(ctx, http.MethodGet, "", query, http.NoBody, 0, emptySum)
		if err != nil {
			return nil, err
		}
		var page struct {
			XMLName               xml.Name `xml:"ListBucketResult"`
			Contents              []struct{ Key string }
			IsTruncated           bool
			NextContinuationToken string
		}
		err = xml.NewDecoder(reply).Decode(&page)
		_ = reply.Close() // it was read
		if err != nil {
			return nil, fmt.Errorf("%s answers no list: %w", b.root.Host, err)
		}
		for _, o := range page.Contents {
			keys = append(keys, strings.TrimPrefix(o.Key, b.prefix))
		}
		if !page.IsTruncated {
			return keys, nil
		}
		next := page.NextContinuationToken
		if next == query.Get("continuation-token") { // none, or the same page again
			return nil, fmt.Errorf("%s does not say how the list goes on", b.root.Host)
		}
		query.Set("continuation-token", next)
	}
}

// do sends a request about a key, or about the bucket if that is empty, and returns the body of its answer.
func (b *Bucket) do(ctx context.Context, method, key string, query url.Values, body io.Reader, size int64, sum string) (
	io.ReadCloser, error) {
	w := watchStalls(ctx)
	at := b.root
	if key != "" {
		at.Path += b.prefix + key
	}
	at.RawPath, at.RawQuery = s3utils.EncodePath(at.Path), query.Encode()
	request, err := http.NewRequestWithContext(w.ctx, method, at.String(), http.NoBody)
	if err != nil {
		return nil, w.end(err)
	}
	if size > 0 {
		request.Body, request.ContentLength = io.NopCloser(moving{body, w}), size
	}
	request.Header.Set("X-Amz-Content-Sha256", sum)
	with, err := b.signingKey()
	if err != nil {
		return nil, w.end(err)
	}
	request = signer.SignV4(*request, with.AccessKeyID, with.SecretAccessKey, with.SessionToken, b.region)
	reply, err := b.client.Do(request)
	if err != nil {
		return nil, w.end(err)
	}
	from := answer{moving{reply.Body, w}, reply.Body}
	if reply.StatusCode/100 == 2 {
		return from, nil
	}
	err = b.refusal(reply, from)
	_ = from.Close() // it was read
	return nil, err
}
