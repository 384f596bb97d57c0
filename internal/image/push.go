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

// Pushing is how to reach a registry. The zero value is the usual way.
type Pushing struct {
	transport http.RoundTripper
	backoff   remote.Backoff // between attempts
}

// Push pushes an image with Docker's or Podman's credentials, and returns its name with the digest. Its errors have
// hints.
func (p Pushing) Push(ctx context.Context, index v1.ImageIndex, tag name.Tag, userAgent string) (string, error) {
	options := []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent(userAgent),
		remote.WithTransport(cmp.Or(p.transport, remote.DefaultTransport)),
	}
	if p.backoff.Steps > 0 {
		options = append(options, remote.WithRetryBackoff(p.backoff))
	}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return "", pushError(err, tag)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return inFull(tag.Digest(digest.String()).Name()), nil
}

// pushError says in one line why an image was not pushed, and what to try.
func pushError(err error, tag name.Tag) error {
	registry := tag.RegistryStr()
	failed := func(advice, what string) error {
		return hint.Errorf(advice, "push to %s: %s: %w", registry, what, oneLine{err})
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return failed(refused(answer.StatusCode, err.Error(), tag))
	}
	_, noHost := errors.AsType[*net.DNSError](err)
	_, noAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noConnection := errors.AsType[*net.OpError](err)
	switch {
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return failed("--insecure pushes over HTTP; the nodes must be told the same in containerd's hosts.toml",
			"the registry does not speak TLS")
	case noHost:
		return failed("check the name of the registry: it is what stands before the first slash", "no such host")
	case noAuthority, badCertificate:
		return failed("trust its authority: SSL_CERT_FILE=ca.pem on Linux, the system's store elsewhere; "+
			"the nodes must trust it too", "its certificate is not trusted")
	case noConnection:
		return failed("is it running, and reachable from here?", "the registry does not answer")
	case strings.Contains(err.Error(), "error getting credentials"):
		return failed("Docker's config.json names a program for credentials: install it, or log in without it",
			"no credentials")
	}
	return failed("", "no success")
}

// refused explains a registry's status code.
func refused(status int, message string, tag name.Tag) (advice, what string) {
	login := "`docker login " + tag.RegistryStr() + "`, or podman's, with a user who may push"
	switch {
	case status == http.StatusUnauthorized:
		return login, "the login is missing or wrong"
	case status == http.StatusForbidden:
		return login + " to " + tag.RepositoryStr() + "; a read-only registry refuses everybody",
			"this login may not push here"
	case status == http.StatusMethodNotAllowed:
		return "push to another registry", "the registry is read-only"
	case status == http.StatusNotFound:
		return "some registries want the repository " + tag.RepositoryStr() + " to be created first",
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
