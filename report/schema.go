package report

import _ "embed"

//go:embed timeline.schema.json
var schema []byte

// Schema is the JSON Schema (draft 2020-12) of what [JSON] writes. It is generated from the Go types
// and their comments; docs/reference/timeline.schema.json is the same file. After a change of the
// types, go generate makes both anew.
//
//go:generate go test ./schematest -run TestSchemaIsUpToDate -update
func Schema() ([]byte, error) { return schema, nil }
