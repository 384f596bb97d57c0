package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/renameio/v2/maybe"

	"lapse/internal/hint"
)

// A Store is the file that has the image of each kubeconfig context, as a JSON object. The zero Store has none.
type Store struct{ Path string }

// UserStore returns the Store of this user: lapse/images.json in [os.UserConfigDir].
func UserStore() Store {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Store{}
	}
	return Store{filepath.Join(dir, "lapse", "images.json")}
}

// Image returns the image of a context, or "".
func (s Store) Image(context string) (string, error) {
	images, err := s.read()
	if err != nil || images[context] == "" {
		return "", err
	}
	if _, err := name.ParseReference(images[context]); err != nil {
		return "", s.damaged(err)
	}
	return images[context], nil
}

// Remember stores the image of a context.
func (s Store) Remember(context, image string) error {
	if s.Path == "" {
		return errors.New("this user has no folder for configuration: neither XDG_CONFIG_HOME nor HOME is set")
	}
	images, err := s.read()
	if err != nil {
		return err
	}
	images[context] = image
	text, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return err
	}
	return maybe.WriteFile(s.Path, append(text, '\n'), 0o644)
}

func (s Store) read() (map[string]string, error) {
	images := map[string]string{}
	if s.Path == "" {
		return images, nil
	}
	text, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return images, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &images); err != nil {
		return nil, s.damaged(err)
	}
	if images == nil { // null
		return nil, s.damaged(errors.New("no object"))
	}
	return images, nil
}

func (s Store) damaged(err error) error {
	return hint.Add("delete it, and push or load the image again; or give --image",
		fmt.Errorf("%s, which has the images of kubeconfig contexts, is damaged: %w", s.Path, err))
}
