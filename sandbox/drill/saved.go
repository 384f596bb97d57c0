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

// Read reads what [Save] wrote.
func Read[T any](file string) (known T, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return known, err
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return known, fmt.Errorf("read %s: %w", file, err)
	}
	return known, nil
}
