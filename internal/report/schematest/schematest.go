// Package schematest checks documents against the JSON Schema of the timeline. Only tests import it, so
// that the validator does not get into the lapse binary; its own tests generate the schema.
package schematest

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lapse/internal/report"
)

// Validate reports where a document departs from the published schema of timeline.json.
func Validate(document []byte) error {
	text, err := report.Schema()
	if err != nil {
		return err
	}
	schema, err := compile(text)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	return schema.Validate(value)
}

func compile(schema []byte) (*jsonschema.Schema, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("timeline.schema.json", value); err != nil {
		return nil, fmt.Errorf("load schema: %w", err)
	}
	return c.Compile("timeline.schema.json")
}
