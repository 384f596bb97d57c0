package report

import _ "embed"

//go:embed timeline.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of what [JSON] writes. It is generated from the Go types and their
// comments: after a change of these, run go generate.
//
//go:generate go test ./schematest -run TestSchemaIsUpToDate -update
func Schema() ([]byte, error) { return schema, nil }
