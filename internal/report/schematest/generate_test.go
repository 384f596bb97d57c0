package schematest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"lapse/correlate/model"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// generateSchema makes the schema from the Go types and from the comments in the source of the module
// whose root directory is the working directory.
func generateSchema() ([]byte, error) {
	comments := jsonschema.Reflector{}
	for _, dir := range []string{"timeline", "correlate/model", "internal/run", "internal/preflight"} {
		if err := comments.AddGoComments("lapse", dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read comments of %s: %w", dir, err)
		}
	}
	for key, text := range comments.CommentMap {
		if strings.Count(key[strings.LastIndexByte(key, '/')+1:], ".") == 2 { // a field's: one line, however it is wrapped
			comments.CommentMap[key] = strings.ReplaceAll(text, "\n", " ")
		}
	}
	constants, err := readConstants("timeline", "correlate/model")
	if err != nil {
		return nil, err
	}
	g := generator{constants: constants, comments: comments.CommentMap, named: jsonschema.Definitions{}}
	return g.generate()
}

// A generator turns Go types into definitions of the schema.
type generator struct {
	constants map[string][]constant
	comments  map[string]string
	named     jsonschema.Definitions // of types that the reflector does not know how to describe
}

func (g *generator) generate() ([]byte, error) {
	schema := g.reflect(&model.Timeline{})
	maps.Copy(schema.Definitions, g.named)
	g.refine(schema.Definitions)
	schema.Title = "Lapse timeline"
	for _, definition := range schema.Definitions {
		unlink(definition)
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

func (g *generator) reflect(value any) *jsonschema.Schema {
	reflector := jsonschema.Reflector{
		Anonymous:                 true,
		AllowAdditionalProperties: true, // so that an old schema accepts what a later Lapse adds
		CommentMap:                g.comments,
		Mapper:                    g.describe,
	}
	return reflector.Reflect(value)
}

// describe gives types with a closed list of values, and lengths of time, a definition of their own.
func (g *generator) describe(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		g.named["Nanoseconds"] = &jsonschema.Schema{
			Type:        "integer",
			Description: "A length of time in nanoseconds, or an instant counted from t0, which may lie before it.",
		}
		return reference("Nanoseconds")
	case t == reflect.TypeFor[timeline.Class]():
		g.named["Class"] = enum(g.comments["lapse/timeline.Class"], classes(g.constants["lapse/timeline.Class"]))
		return reference("Class")
	case t == reflect.TypeFor[json.RawMessage](): // the only one: the package of the judged run does not know that of the run
		maps.Copy(g.named, g.reflect(&spec.Spec{}).Definitions)
		return reference("Spec")
	case t == reflect.TypeFor[model.Histogram]():
		return reference("SparseCounts")
	case t == reflect.TypeFor[netip.Addr](), t == reflect.TypeFor[netip.AddrPort]():
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.String && g.constants[typeName(t)] != nil:
		g.named[t.Name()] = enum(g.comments[typeName(t)], g.constants[typeName(t)])
		return reference(t.Name())
	}
	return nil
}

func typeName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func reference(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

// classes gives the class constants the names they have in JSON. They are numbers in Go, in the same
// order; the last one only counts them.
func classes(constants []constant) []constant {
	var named []constant
	for i, c := range constants[:timeline.NumClasses] {
		named = append(named, constant{value: timeline.Class(i).String(), comment: c.comment})
	}
	return named
}

// enum describes a closed list of values, and in its description what each means.
func enum(comment string, values []constant) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "string"}
	lines := []string{comment}
	for _, c := range values {
		schema.Enum = append(schema.Enum, c.value)
		if c.comment != "" {
			lines = append(lines, fmt.Sprintf("- %s: %s", c.value, c.comment))
		}
	}
	schema.Description = strings.TrimSpace(strings.Join(lines, "\n"))
	return schema
}

// leftOut names the parts of facts that their judged forms, which embed them, leave out.
var leftOut = map[string][]string{"Event": {"since"}, "Target": {"family", "timeout"}}

// refine says what the Go types cannot: what the keys of maps are, and the states of a Pod's lane.
func (g *generator) refine(definitions jsonschema.Definitions) {
	classNames := &jsonschema.Schema{Ref: reference("Class").Ref}
	for _, name := range []string{"Target", "Window", "BucketSeries"} {
		classes, _ := definitions[name].Properties.Get("classes")
		classes.PropertyNames = classNames
	}
	state, _ := definitions["PodState"].Properties.Get("state")
	for _, s := range []string{"pending", "creating", "running", "ready", "terminating+serving", "terminating", "gone", "crashed"} {
		state.Enum = append(state.Enum, s)
	}
	for of, left := range leftOut {
		for _, name := range left {
			definitions[of].Properties.Delete(name)
		}
	}
	version, _ := definitions["Timeline"].Properties.Get("schemaVersion")
	version.Const = model.SchemaVersion
}

// unlink removes the brackets of links in Go doc comments.
func unlink(s *jsonschema.Schema) {
	s.Description = docLink.ReplaceAllString(s.Description, "$1")
	if s.Properties == nil {
		return
	}
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		unlink(pair.Value)
	}
}
