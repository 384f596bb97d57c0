package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/internal/hint"
)

func TestImagesAreRememberedByContext(t *testing.T) {
	store := Store{filepath.Join(t.TempDir(), "lapse", "images.json")}
	if got, err := store.Image("prod"); got != "" || err != nil {
		t.Errorf("before: %q, %v", got, err)
	}
	for kubeContext, image := range map[string]string{"prod": "ghcr.io/you/lapse@sha256:" + strings.Repeat("0", 64), "kind-dev": "lapse:dev"} {
		if err := store.Remember(kubeContext, image); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Remember("kind-dev", "lapse:v2"); err != nil {
		t.Fatal(err)
	}
	for kubeContext, want := range map[string]string{"prod": "ghcr.io/you/lapse@sha256:" + strings.Repeat("0", 64), "kind-dev": "lapse:v2", "other": ""} {
		if got, err := store.Image(kubeContext); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", kubeContext, got, err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(store.Path)); err != nil || len(left) != 1 {
		t.Errorf("files %v, %v: want one", left, err)
	}
}

// A file that is half, or was edited badly, is not guessed from, and not overwritten.
func TestADamagedStoreIsRefused(t *testing.T) {
	for _, text := range []string{"", `{"prod": "ghcr.io/yo`, "[]", "null", `{"prod": 1}`, `{"prod": "Not An Image"}`} {
		store := Store{filepath.Join(t.TempDir(), "images.json")}
		if err := os.WriteFile(store.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := store.Image("prod")
		if err == nil || !strings.Contains(err.Error(), store.Path) || !strings.Contains(hint.Of(err), "delete it") {
			t.Errorf("%q: error %v", text, err)
		}
		if text == `{"prod": "Not An Image"}` {
			continue // another push mends it
		}
		if err := store.Remember("dev", "lapse:dev"); err == nil {
			t.Errorf("%q was overwritten", text)
		}
	}
}

func TestWithoutAFolderNothingIsRemembered(t *testing.T) {
	if got, err := (Store{}).Image("prod"); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := (Store{}).Remember("prod", "lapse:dev"); err == nil {
		t.Error("remembered")
	}
}
