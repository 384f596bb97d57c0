package image

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Published is what a registry has of an image.
type Published struct {
	Platforms []string // such as linux/amd64
	Login     bool     // the registry was asked with a login, and may want one of each node
}

// Published returns what its registry has of an image. Its errors have hints.
func (r Registry) Published(ctx context.Context, image name.Reference) (Published, error) {
	found, err := remote.Get(image, r.options(ctx)...)
	if err != nil {
		return Published{}, explain("ask", err, image.Context(), notRead)
	}
	platforms, err := platformsOf(found)
	if err != nil {
		return Published{}, explain("ask", err, image.Context(), notRead)
	}
	login, err := authn.Resolve(ctx, authn.DefaultKeychain, image.Context())
	return Published{Platforms: platforms, Login: login != authn.Anonymous}, err
}

func platformsOf(found *remote.Descriptor) (platforms []string, err error) {
	if !found.MediaType.IsIndex() {
		img, err := found.Image()
		if err != nil {
			return nil, err
		}
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		return []string{withoutVariant(config.Platform())}, nil
	}
	index, err := found.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil {
			platforms = append(platforms, withoutVariant(m.Platform))
		}
	}
	return platforms, nil
}

func withoutVariant(p *v1.Platform) string { return p.OS + "/" + p.Architecture }

// IsMissing reports whether err of [Registry.Published] says that the registry has no such image.
func IsMissing(err error) bool {
	answer, ok := errors.AsType[*transport.Error](err)
	return ok && answer.StatusCode == http.StatusNotFound
}

// notRead is the [answer] to a question.
func notRead(status int, _ string, repo name.Repository) (advice, what string) {
	login := "`docker login " + repo.RegistryStr() + "`, or podman's"
	switch {
	case status == http.StatusUnauthorized:
		return login, wrongLogin
	case status == http.StatusForbidden:
		return login + ", with a user who may pull from " + repo.RepositoryStr(), "this login may not pull here"
	case status == http.StatusNotFound:
		return "`lapse image push " + inFull(repo.Name()) + "`", "there is no such image"
	case status >= http.StatusInternalServerError:
		return "look at the registry's own log", "the registry failed"
	}
	return "", "the registry refused it"
}
