package deploy

import (
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// WriteYAML writes the objects as YAML documents for `kubectl apply -f`.
func WriteYAML(w io.Writer, objects ...runtime.Object) error {
	for i, object := range objects {
		text, err := toYAML(object)
		if err != nil {
			return fmt.Errorf("render %s: %w", object.GetObjectKind().GroupVersionKind().Kind, err)
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
	}
	return nil
}

// toYAML returns one object without the fields that only the API server fills in.
func toYAML(object runtime.Object) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	prune(fields)
	return yaml.Marshal(fields)
}

func prune(fields map[string]any) {
	delete(fields, "status")
	for name, value := range fields {
		if nested, ok := value.(map[string]any); ok {
			prune(nested)
		}
		if value == nil {
			delete(fields, name)
		}
	}
}
