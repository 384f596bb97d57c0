package image

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"lapse/internal/hint"
)

// Tag reads the name that an image gets, such as ghcr.io/you/lapse:v1. Without a tag it gets the version. If
// insecure, its registry may be asked over HTTP.
func Tag(text, version string, insecure bool) (name.Tag, error) {
	options := []name.Option{name.WithDefaultTag(version)}
	if insecure {
		options = append(options, name.Insecure)
	}
	tag, err := name.NewTag(text, options...)
	if strings.Contains(text, "://") {
		err = errors.New("it has no scheme")
	}
	if err != nil {
		return tag, hint.Errorf("as in ghcr.io/you/lapse, or ghcr.io/you/lapse:v1", "image %q: %w", text, err)
	}
	return tag, nil
}

// A Registry is how registries are asked. The zero value is the usual way.
type Registry struct {
	UserAgent string
	Insecure  bool // over HTTP, too

	transport http.RoundTripper
	backoff   remote.Backoff // between attempts
}

// options returns how to reach a registry: with Docker's or Podman's credentials.
func (r Registry) options(ctx context.Context) []remote.Option {
	over := cmp.Or(r.transport, remote.DefaultTransport)
	if !r.Insecure {
		over = overTLS{over}
	}
	options := []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent(r.UserAgent),
		remote.WithTransport(over),
	}
	if r.backoff.Steps > 0 {
		options = append(options, remote.WithRetryBackoff(r.backoff))
	}
	return options
}

// overTLS sends requests without TLS only to this machine. go-containerregistry tries HTTP at each private address
// that does not answer over TLS, or whose certificate it does not trust, and would send it the credentials.
type overTLS struct{ http.RoundTripper }

func (o overTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	here := host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
	if r.URL.Scheme != "https" && !here {
		return nil, errors.New("not asked over HTTP")
	}
	return o.RoundTripper.RoundTrip(r)
}

// Push pushes an image, and returns its name with the digest. Its errors have hints.
func (r Registry) Push(ctx context.Context, index v1.ImageIndex, tag name.Tag) (string, error) {
	if err := remote.WriteIndex(tag, index, r.options(ctx)...); err != nil {
		return "", explain("push to", err, tag.Context(), notPushed)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return inFull(tag.Digest(digest.String()).Name()), nil
}

// An answer explains the status code with which a registry refuses, and says what to try.
type answer func(status int, message string, repo name.Repository) (advice, what string)

// explain says in one line why a registry has not done what it was to do, and what to try.
func explain(doing string, err error, repo name.Repository, refused answer) error {
	failed := func(advice, what string) error {
		return hint.Errorf(advice, "%s %s: %s: %w", doing, repo.RegistryStr(), what, oneLine{err})
	}
	_, noHost := errors.AsType[*net.DNSError](err)
	_, noAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noConnection := errors.AsType[*net.OpError](err)
	answer, answered := errors.AsType[*transport.Error](err)
	switch {
	case noAuthority, badCertificate: // first: asked over HTTP then, the registry answers that it speaks TLS
		return failed("trust its authority: SSL_CERT_FILE=ca.pem on Linux, the system's store elsewhere; "+
			"the nodes must trust it too", "its certificate is not trusted")
	case answered:
		return failed(refused(answer.StatusCode, err.Error(), repo))
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return failed("--insecure pushes over HTTP; the nodes must be told the same in containerd's hosts.toml",
			"the registry does not speak TLS")
	case noHost:
		return failed("check the name of the registry: it is what stands before the first slash", "no such host")
	case noConnection:
		return failed("is it running, and reachable from here?", "the registry does not answer")
	case strings.Contains(err.Error(), "error getting credentials"):
		return failed("Docker's config.json names a program for credentials: install it, or log in without it",
			"no credentials")
	}
	return failed("", "no success")
}

// notPushed is the [answer] to a push.
func notPushed(status int, message string, repo name.Repository) (advice, what string) {
	login := "`docker login " + repo.RegistryStr() + "`, or podman's, with a user who may push"
	switch {
	case status == http.StatusUnauthorized:
		return login, wrongLogin
	case status == http.StatusForbidden:
		return login + " to " + repo.RepositoryStr() + "; a read-only registry refuses everybody",
			"this login may not push here"
	case status == http.StatusMethodNotAllowed:
		return "push to another registry", "the registry is read-only"
	case status == http.StatusNotFound:
		return "some registries want the repository " + repo.RepositoryStr() + " to be created first",
			"there is no such repository"
	case status == http.StatusInsufficientStorage, strings.Contains(message, "no space left"):
		return "free space on the registry's disk, or ask whoever runs it", "the registry's disk is full"
	case status == http.StatusRequestEntityTooLarge:
		return "raise the limit of the proxy in front of the registry", "an upload is too large"
	case status >= http.StatusInternalServerError:
		return "look at the registry's own log: its disk may be full", "the registry failed"
	}
	return "", "the registry refused it"
}

const wrongLogin = "the login is missing or wrong"

// oneLine is an error whose text is on one line, and not longer than a person reads.
type oneLine struct{ error }

func (e oneLine) Unwrap() error { return e.error }

func (e oneLine) Error() string {
	const most = 300
	text := strings.Join(strings.Fields(e.error.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Describe returns the platforms of an image and the size of what is pushed for each: "linux/amd64 (14 MB)".
func Describe(index v1.ImageIndex) (string, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			return "", err
		}
		inside, err := img.Manifest()
		if err != nil {
			return "", err
		}
		var size int64
		for _, l := range inside.Layers {
			size += l.Size
		}
		platforms = append(platforms, fmt.Sprintf("%s (%.1f MB)", m.Platform, float64(size)/1e6))
	}
	return strings.Join(platforms, ", "), nil
}
