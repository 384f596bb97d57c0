package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"lapse/internal/hint"
)

// A loader is a tool that puts the image of a tar onto the nodes of a local cluster.
type loader struct {
	name, context string                             // a context that begins like this is the tool's
	line          func(tar, cluster string) []string // the command line
}

var loaders = []loader{
	{"kind", "kind-", func(tar, cluster string) []string {
		return []string{"kind", "load", "image-archive", tar, "--name", cluster}
	}},
	{"k3d", "k3d-", func(tar, cluster string) []string {
		return []string{"k3d", "image", "import", tar, "--cluster", cluster}
	}},
	{"minikube", "minikube", func(tar, cluster string) []string {
		return []string{"minikube", "image", "load", tar, "--profile", cluster}
	}},
	{"containerd", "", func(tar, _ string) []string {
		return []string{"ctr", "--namespace", "k8s.io", "images", "import", tar}
	}},
}

// Loaders returns the names of the tools.
func Loaders() (names []string) {
	for _, l := range loaders {
		names = append(names, l.name)
	}
	return names
}

// A Loader puts images onto the nodes of one local cluster.
type Loader struct {
	loader
	program string // the tool's path
	cluster string
}

// LoaderFor returns the Loader of the cluster that the kubeconfig's context names, by the tool into; if that is empty,
// by the context's own.
func LoaderFor(into, kubeContext string) (*Loader, error) {
	tool, err := choose(into, kubeContext)
	if err != nil {
		return nil, err
	}
	l := &Loader{loader: tool, cluster: cmp.Or(kubeContext, tool.name)}
	if tool.name != "minikube" { // whose contexts are called as its profiles
		l.cluster = cmp.Or(strings.TrimPrefix(kubeContext, tool.context), tool.name)
	}
	if l.program, err = exec.LookPath(l.line("", "")[0]); err != nil {
		line := strings.Join(l.line("lapse.tar", l.cluster), " ")
		return nil, hint.Errorf("`lapse image save lapse.tar`, and where the program is: `"+line+"`",
			"no program to load the image with: %w", err)
	}
	return l, nil
}

// Load loads an image. The tool's output goes to talk.
func (l *Loader) Load(ctx context.Context, index v1.ImageIndex, tag name.Tag, talk io.Writer) error {
	dir, err := os.MkdirTemp("", "lapse-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tar := filepath.Join(dir, "lapse.tar")
	if err := SaveFile(tar, index, tag); err != nil {
		return err
	}
	line := l.line(tar, l.cluster)
	cmd := exec.CommandContext(ctx, l.program, line[1:]...)
	cmd.Stdout, cmd.Stderr = talk, talk
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(line, " "), err)
	}
	return nil
}

func choose(into, kubeContext string) (loader, error) {
	for _, l := range loaders {
		if into == l.name || into == "" && l.context != "" && strings.HasPrefix(kubeContext, l.context) {
			return l, nil
		}
	}
	advice := "for any cluster: `lapse image push REGISTRY/NAME`; for a local one: --into " +
		strings.Join(Loaders(), ", ")
	switch {
	case into != "":
		return loader{}, hint.Errorf(advice, "into %q: no such tool", into)
	case kubeContext == "":
		return loader{}, hint.Add(advice, errors.New("the kubeconfig names no cluster to load the image into"))
	}
	return loader{}, hint.Errorf(advice, "context %s is not one of kind, k3d or minikube", kubeContext)
}
