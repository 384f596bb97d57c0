package image

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"lapse/internal/hint"
)

func TestTheContextSaysWhichToolLoads(t *testing.T) {
	for _, test := range []struct{ into, context, want string }{
		{"", "kind-dev", "kind load image-archive lapse.tar --name dev"},
		{"kind", "", "kind load image-archive lapse.tar --name kind"},
		{"", "k3d-dev", "k3d image import lapse.tar --cluster dev"},
		{"", "minikube", "minikube image load lapse.tar --profile minikube"},
		{"minikube", "mine", "minikube image load lapse.tar --profile mine"},
		{"containerd", "kind-dev", "ctr --namespace k8s.io images import lapse.tar"},
	} {
		t.Setenv("PATH", t.TempDir()) // none of them is there
		_, err := LoaderFor(test.into, test.context)
		if err == nil || !strings.Contains(hint.Of(err), "`"+test.want+"`") || !strings.Contains(hint.Of(err), "lapse image save lapse.tar") {
			t.Errorf("--into %q in context %q: error %v, hint %q", test.into, test.context, err, hint.Of(err))
		}
	}
	for _, test := range []struct{ into, context, want string }{
		{"", "eks", "context eks is not one of"}, {"", "", "names no cluster"}, {"docker", "kind-dev", "no such tool"},
	} {
		_, err := LoaderFor(test.into, test.context)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(hint.Of(err), "lapse image push") {
			t.Errorf("--into %q in context %q: error %v, hint %q", test.into, test.context, err, hint.Of(err))
		}
	}
}

func TestTheToolGetsTheImage(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // a shell script stands for the tool
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	play := func(script string) (string, error) {
		if err := os.WriteFile(filepath.Join(dir, "kind"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		var talk bytes.Buffer
		kind, err := LoaderFor("", "kind-dev")
		if err == nil {
			err = kind.Load(t.Context(), bothPlatforms(t), name.MustParseReference("lapse:dev").(name.Tag), &talk)
		}
		return talk.String(), err
	}
	if talk, err := play(`tar tf "$3" && echo "$@"`); err != nil || !strings.Contains(talk, "manifest.json") || !strings.Contains(talk, "--name dev") {
		t.Errorf("%q, error %v", talk, err)
	}
	if talk, err := play("echo no nodes found >&2; exit 1"); err == nil || talk != "no nodes found\n" || !strings.HasPrefix(err.Error(), "kind load image-archive ") {
		t.Errorf("%q, error %v", talk, err)
	}
}
