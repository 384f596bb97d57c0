package drill

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes what is known of a run as JSON into a file of its folder, which is made if it is not there.
func Save(dir, file string, known any) error {
	data, err := json.MarshalIndent(known, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), data, 0o644)
}

// Saved reads what [Save] wrote of several runs: the files that match a pattern, in the order of their paths. use is
// called with each and its folder.
func Saved[T any](pattern string, use func(dir string, known T) error) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var known T
		if err := json.Unmarshal(data, &known); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		if err := use(filepath.Dir(file), known); err != nil {
			return err
		}
	}
	return nil
}
