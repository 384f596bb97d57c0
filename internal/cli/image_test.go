package cli

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// useHome gives the test a user of its own, with a kubeconfig whose context is called test.
func useHome(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "AppData"} {
		t.Setenv(name, home)
	}
	t.Setenv("REGISTRY_AUTH_FILE", "")
	t.Setenv(envImage, "")
	t.Setenv("KUBECONFIG", filepath.Join(home, "kubeconfig"))
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(kubetest.Kubeconfig("http://127.0.0.1:1")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lapse runs the command line, and returns what it printed.
func lapse(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	code = Main(t.Context(), append([]string{"lapse"}, args...), &out, &talk)
	return code, out.String(), talk.String()
}

// ELF's numbers of machines.
const (
	amd64 = 62
	arm64 = 183
)

// staticBinary returns the path of a file that is just enough of a Linux program to be packed.
func staticBinary(t *testing.T, machine byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lapse")
	header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	header[16], header[18], header[20], header[52], header[54] = 2, machine, 1, 64, 56
	if err := os.WriteFile(path, header, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPushedImageNeedsNotBeNamedAgain(t *testing.T) {
	if runtime.GOOS == "linux" && runtime.GOARCH != "amd64" {
		return // this test program would be packed too, and is not static
	}
	useHome(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	called := strings.TrimPrefix(server.URL, "http://") + "/tools/lapse"
	code, stdout, stderr := lapse(t, "image", "push", called, "--binary", "linux/amd64="+staticBinary(t, amd64))
	pushed := strings.TrimSpace(stdout)
	if code != 0 || !strings.HasPrefix(pushed, called+"@sha256:") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, want := range []string{"no binary for linux/arm64", "--binary linux/arm64=PATH", "remembered for context test"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in %q", want, stderr)
		}
	}
	gen := func(flags ...string) string {
		_, stdout, _ := lapse(t, append([]string{"gen", "svc/web", "--duration=1m"}, flags...)...)
		return stdout
	}
	if !strings.Contains(gen(), "image: "+pushed+"\n") {
		t.Errorf("the Job has another image than %s", pushed)
	}
	t.Setenv(envImage, "from-env:v1")
	if !strings.Contains(gen(), "image: from-env:v1\n") {
		t.Error("the environment is not taken before what is remembered")
	}
	if !strings.Contains(gen("--image=from-flag:v1"), "image: from-flag:v1\n") {
		t.Error("--image is not taken before all")
	}
}

func TestWithoutAPushTheBuildsImageIsUsed(t *testing.T) {
	useHome(t)
	o := spec.Options{Kube: access.Kube{Context: "test"}}
	if err := chooseImage(&o); err != nil || o.Image != builtInImage {
		t.Errorf("image %q, %v", o.Image, err)
	}
	store := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "lapse", "images.json")
	if runtime.GOOS != "linux" {
		return // the file lies elsewhere
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(store), 0o755), os.WriteFile(store, []byte(`{"te`), 0o644)); err != nil {
		t.Fatal(err)
	}
	o.Image = ""
	if err := chooseImage(&o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), store) {
		t.Errorf("a damaged file: %v", err)
	}
}

// Who reads that an image cannot be pulled must learn where its name comes from.
func TestAnImageThatCannotBePulledSaysWhoNamedIt(t *testing.T) {
	o := spec.Options{Image: "lapse:no", ImageFrom: "--image"}
	failed := sayWhoseImage(exit.AsUsage(hint.Add("push it", &deploy.StartError{Reason: "ErrImagePull", Image: "lapse:no"})), &o)
	if exit.CodeOf(failed) != exit.Usage || hint.Of(failed) != "push it\nthe image's name comes from --image" {
		t.Errorf("exit code %d, hint %q", exit.CodeOf(failed), hint.Of(failed))
	}
	if other := sayWhoseImage(&deploy.StartError{Reason: "Unschedulable"}, &o); hint.Of(other) != "" {
		t.Errorf("hint %q", hint.Of(other))
	}
	if sayWhoseImage(nil, &o) != nil {
		t.Error("an error of nothing")
	}
}

func TestMistakesOfImageAreAnswered(t *testing.T) {
	useHome(t)
	readOnly := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	t.Cleanup(readOnly.Close)
	host := strings.TrimPrefix(readOnly.URL, "http://")
	both := []string{"--binary=linux/amd64=" + staticBinary(t, amd64), "--binary=linux/arm64=/nowhere"}
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{2, "in which registry", []string{"push", "lapse"}},
		{2, "the image's name", []string{"push"}},
		{2, `there is no context "prod"`, []string{"push", host + "/lapse", "--context", "prod"}},
		{2, "the contexts are test", []string{"push", host + "/lapse", "--context", "prod"}},
		{2, "as in --binary linux/arm64=PATH", []string{"push", host + "/lapse", "--binary", "x"}},
		{2, "/nowhere: no such file", append([]string{"push", host + "/lapse"}, both...)},
		{1, "the registry is read-only", append([]string{"push", host + "/lapse"}, both[0])},
		{2, "context test is not one of kind", append([]string{"load"}, both[0])},
		{2, "unknown verb", []string{"pull"}},
		{2, "the FILE to write", []string{"save"}},
	} {
		code, _, stderr := lapse(t, append([]string{"image"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit code %d, %q, want %d, %q", test.args, code, stderr, test.code, test.want)
		}
	}
}

func TestImageIsSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lapse.tar")
	if code, _, stderr := lapse(t, "image", "save", file, "--name=lapse:x", "--binary=linux/amd64="+staticBinary(t, amd64), "--binary=linux/arm64="+staticBinary(t, arm64)); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if saved, err := os.ReadFile(file); err != nil || !bytes.Contains(saved, []byte(`"docker.io/library/lapse:x"`)) {
		t.Errorf("no image of that name in the tar: %v", err)
	}
}
