package doctor

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/image"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/access"
)

// newRegistry serves a registry that has lapse:both, lapse:amd64 (an index) and lapse:single (an image of amd64).
func newRegistry(t *testing.T) http.Handler {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(images)
	t.Cleanup(server.Close)
	img := func(arch string) v1.Image {
		made, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	named := func(tag string) name.Reference {
		ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/lapse:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	for tag, arches := range map[string][]string{"both": {"amd64", "arm64"}, "amd64": {"amd64"}} {
		index := v1.ImageIndex(empty.Index)
		for _, arch := range arches {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: img(arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
			})
		}
		if err := remote.WriteIndex(named(tag), index); err != nil {
			t.Fatal(err)
		}
	}
	if err := remote.Write(named("single"), img("amd64")); err != nil {
		t.Fatal(err)
	}
	return images
}

func TestTheRegistryIsAskedForAnImageThatNoNodeHas(t *testing.T) {
	images := newRegistry(t)
	open := httptest.NewServer(images)
	withLogin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	unknown := httptest.NewUnstartedServer(images)
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that a client does not trust it
	unknown.StartTLS()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, server := range []*httptest.Server{open, withLogin, unknown} {
		t.Cleanup(server.Close)
	}
	for _, tt := range []struct {
		name, image string
		password    string // of the user's login; empty: none
		at          *httptest.Server
		want        []string
	}{
		{"an image for all nodes", "lapse:both", "", open,
			[]string{"ok image: ", "is in its registry, for linux/amd64 and linux/arm64 | \n"}},
		{"with a login", "lapse:both", "secret", withLogin,
			[]string{"ok image: ", "asked with your login: nodes without one need --image-pull-secret"}},
		{"no login", "lapse:both", "", withLogin,
			[]string{"warn image: ", "is on 0 of 2 nodes: whether nodes can pull it is not known",
				"the login is missing or wrong", "| `docker login ",
				"`kubectl create secret docker-registry lapse-pull -n shop --docker-server="}},
		{"a wrong login", "lapse:both", "wrong", withLogin, []string{"warn image: ", "the login is missing or wrong"}},
		{"a platform is missing", "lapse:amd64", "", open,
			[]string{"warn image: ", "for linux/amd64, not for linux/arm64: 1 of 2 nodes cannot run it",
				"--binary linux/arm64=PATH"}},
		{"no index", "lapse:single", "", open, []string{"warn image: ", "for linux/amd64, not for linux/arm64"}},
		{"no such tag", "lapse:v2", "", open,
			[]string{"fail image: ", "there is no such image", "| `lapse image push 127.0.0.1:"}},
		{"no such repository", "nothing:both", "", open, []string{"fail image: ", "there is no such image"}},
		{"an unknown certificate", "lapse:both", "", unknown,
			[]string{"warn image: ", "its certificate is not trusted", "SSL_CERT_FILE"}},
		{"nobody listens", "lapse:both", "", closed, []string{"warn image: ", "the registry does not answer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, folder := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} {
				t.Setenv(folder, t.TempDir())
			}
			t.Setenv("REGISTRY_AUTH_FILE", "")
			at := tt.at.Listener.Addr().String()
			if tt.password != "" {
				auth := base64.StdEncoding.EncodeToString([]byte("me:" + tt.password))
				config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, at, auth)
				file := filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")
				if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			finding := pullable(t.Context(), fakeCluster(nil, nil), at+"/"+tt.image, image.Registry{})
			got := lines([]Finding{finding})
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}

// A node with many images may have one that it does not list.
func TestAnImageThatANodeMayHaveIsNoFailure(t *testing.T) {
	server := httptest.NewServer(newRegistry(t))
	t.Cleanup(server.Close)
	missing := server.Listener.Addr().String() + "/lapse:v2"
	for images, want := range map[int]Level{mostListed - 1: Fail, mostListed: Warn} {
		client := fake.NewClientset(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Images: make([]corev1.ContainerImage, images)},
		})
		cluster := &access.Cluster{Client: kubetest.Client(client), Namespace: "shop"}
		if got := pullable(t.Context(), cluster, missing, image.Registry{}); got.Level != want {
			t.Errorf("with %d images: %+v, want %s", images, got, want)
		}
	}
}

func TestAnImageForNoNodeFails(t *testing.T) {
	fails := inRegistry("x/lapse:v1", image.Published{Platforms: []string{"linux/s390x"}}, []corev1.Node{
		{Status: corev1.NodeStatus{NodeInfo: platform("linux", "amd64")}},
		{Status: corev1.NodeStatus{NodeInfo: platform("windows", "amd64")}},
	})
	if fails.Level != Fail {
		t.Errorf("%+v", fails)
	}
	noNodes := inRegistry("x/lapse:v1", image.Published{Platforms: []string{"linux/amd64"}}, nil) // no right to list them
	if noNodes.Level != OK {
		t.Errorf("%+v", noNodes)
	}
}
