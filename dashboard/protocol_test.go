package dashboard

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
)

var update = flag.Bool("update", false, "rewrite the protocol's schema and its table of keys")

const (
	schemaPath   = "../docs/reference/stream.schema.json"
	documentPath = "../docs/reference/stream.md"
	timelinePath = "../internal/report/timeline.schema.json"
	timelineRef  = "../../internal/report/timeline.schema.json#/$defs/" // from the schema of the stream
)

// keys are what a run's owner puts into the store: the keys' shape, that of the values, and what they tell.
var keys = []struct{ key, pattern, shape, text string }{
	{"tool", "^tool$", "Tool", "the program that judges the run"},
	{"t0", "^t0$", "Timeline.t0", "when the run began"},
	{"run", "^run$", "RunInfo", "what was asked for and what ran"},
	{"verdict", "^verdict$", "Verdict", "the run in one word, and the figures it rests on; while it goes on, as they stand"},
	{"said", "^said$", "Said", "the run in words, as every report begins"},
	{"live", "^live$", "boolean", "whether the run goes on"},
	{"now", "^now$", "Nanoseconds", "how far time has come"},
	{"target/NAME", "^target/", "Target", "a target's totals; a detail if there are many targets"},
	{"counts", "^counts$", "Counts", "how many targets there are; present if they are many, so that groups stand for them"},
	{"group/GROUP", "^group/", "Group", "what a group of targets has measured, if there are many"},
	{"together/GROUP/CHUNK", "^together/.*/[0-9]+$", "Together", "some slots of what a group's targets show together; without a name, of all that are judged"},
	{"notMeasured", "^notMeasured$", "NotMeasured", "by node, when nothing was measured from it; if there are many targets"},
	{"members/GROUP", "^members/", "Members", "the names of a group's targets, by zone and node; a detail"},
	{"unobserved/NAME", "^unobserved/", "Timeline.unobserved", "when a target was not observed; a detail"},
	{"incidents", "^incidents$", "Timeline.incidents", "what the page leads with: windows that belong together, with their causes"},
	{"window/ID", "^window/[0-9]+$", "Window", "a window, with its causes"},
	{"event/ID", "^event/[0-9]+$", "Event", "an event"},
	{"pod/UID", "^pod/", "Pod", "a Pod's life"},
	{"services", "^services$", "Timeline.services", "how many endpoints each Service had, and since when"},
	{"held", "^held$", "Timeline.held", "what became of connections that were kept open, without each single cut; if some were"},
	{"sources", "^sources$", "Timeline.sources", "who measures and watches"},
	{"routes", "^routes$", "Timeline.routes", "how nodes followed changes of endpoints, if probers on nodes measure"},
	{"controlPlane", "^controlPlane$", "ControlPlane", "how the cluster's API servers answered; with --control-plane"},
	{"keepServing", "^keepServing$", "KeepServing", "what would be left of the failures, had each Pod served longer; if routes outlived Pods"},
	{"late", "^late$", "Timeline.late", "which of these nodes and changes stand out"},
	{"scorecard", "^scorecard$", "Scorecard", "what preflight predicted, against what happened; once the run is over, if preflight was asked"},
	{"unobserved", "^unobserved$", "Timeline.unobserved", "all stretches that were not measured; a detail of each target if there are many"},
	{"bucketWidth", "^bucketWidth$", "Nanoseconds", "how long a slot is; when it changes, all slots come anew"},
	{"bucket/NAME/CHUNK", "^bucket/.+/[0-9]+$", "BucketSeries", "some slots of a target's series, from index `start` on; in `classes` slots count from the beginning of the run; a detail if there are many targets"},
}

func TestProtocolIsDocumented(t *testing.T) {
	for path, want := range map[string][]byte{schemaPath: protocolSchema(t), documentPath: documented(t)} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): run go test ./dashboard -run ProtocolIsDocumented -update", path, err)
		}
	}
}

// protocolSchema makes the schema of the messages from their Go types and from the table of keys.
func protocolSchema(t *testing.T) []byte {
	t.Helper()
	reflector := invopop.Reflector{Anonymous: true, AllowAdditionalProperties: true}
	if err := reflector.AddGoComments("lapse", "../dashboard", invopop.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	reflector.CommentMap = underPackage(reflector.CommentMap)
	schema := &invopop.Schema{
		Version: invopop.Version, Title: "Lapse stream, protocol 1",
		Description: "A message of the page's stream (Delta), or the state at one moment (Snapshot).",
		Definitions: invopop.Definitions{"Values": values()},
		OneOf:       []*invopop.Schema{{Ref: "#/$defs/Snapshot"}, {Ref: "#/$defs/Delta"}},
	}
	for _, value := range []any{&publish.Group{}, &publish.Together{}, &publish.Counts{}} {
		for name, definition := range reflector.Reflect(value).Definitions {
			schema.Definitions[name] = definition
		}
	}
	for _, message := range []any{&Snapshot{}, &Delta{}} {
		for name, definition := range reflector.Reflect(message).Definitions {
			if name != "Snapshot" && name != "Delta" {
				continue
			}
			version, _ := definition.Properties.Get("protocol")
			version.Const = Protocol
			seq, _ := definition.Properties.Get("seq")
			seq.Minimum, seq.Description = json.Number("0"), "rises with every change"
			for _, member := range []string{"entries", "put"} {
				if _, ok := definition.Properties.Get(member); ok {
					definition.Properties.Set(member, &invopop.Schema{Ref: "#/$defs/Values"})
				}
			}
			schema.Definitions[name] = definition
		}
	}
	// What tells a delta from a snapshot is that it has no entries.
	schema.Definitions["Delta"].Not = &invopop.Schema{Required: []string{"entries"}}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// underPackage puts comments under the import path, which the reflector looks for.
func underPackage(comments map[string]string) map[string]string {
	found := map[string]string{}
	for name, comment := range comments {
		found["lapse/dashboard"+name[strings.LastIndex(name, "/dashboard")+len("/dashboard"):]] = comment
	}
	return found
}

// values describes what lies under the keys, by reference to the schema of timeline.json.
func values() *invopop.Schema {
	all := &invopop.Schema{Type: "object", Description: "Values by key. A reader ignores keys that are not listed.", PatternProperties: map[string]*invopop.Schema{}}
	for _, k := range keys {
		all.PatternProperties[k.pattern] = shape(k.shape)
	}
	return all
}

// shape refers to a definition of timeline.json, or to a member of one ("Timeline.t0").
func shape(name string) *invopop.Schema {
	definition, member, isMember := strings.Cut(name, ".")
	switch {
	case name == "NotMeasured":
		return &invopop.Schema{Type: "object", AdditionalProperties: &invopop.Schema{Type: "array", Items: &invopop.Schema{Ref: "#/$defs/Span"}}}
	case name == "Members":
		return &invopop.Schema{Type: "array", Items: &invopop.Schema{Type: "string"}}
	case name == "Group" || name == "Together" || name == "Counts":
		return &invopop.Schema{Ref: "#/$defs/" + name}
	case name == "boolean":
		return &invopop.Schema{Type: "boolean"}
	case isMember:
		return &invopop.Schema{Ref: timelineRef + definition + "/properties/" + member}
	case name == "BucketSeries":
		chunk := &invopop.Schema{Ref: timelineRef + "BucketSeries", Properties: invopop.NewProperties(), Required: []string{"start"}}
		chunk.Properties.Set("start", &invopop.Schema{Type: "integer", Description: "index of the first slot"})
		return chunk
	}
	return &invopop.Schema{Ref: timelineRef + name}
}

var keyTable = regexp.MustCompile(`(?s)(<!-- keys -->\n).*(<!-- /keys -->)`)

// documented is the protocol's document with the table of keys as it should be.
func documented(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| key | value | |\n|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", k.key, k.shape, k.text)
	}
	return keyTable.ReplaceAllFunc(text, func([]byte) []byte {
		return []byte("<!-- keys -->\n" + table.String() + "<!-- /keys -->")
	})
}

// compileProtocol reads the committed schema together with that of timeline.json.
func compileProtocol(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for _, path := range []string{schemaPath, timelinePath} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(path, value); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, message any) error {
	t.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// What the server sends of a run, live and ended, follows the schema, and lies under documented keys only.
func TestMessagesFollowTheSchema(t *testing.T) {
	layer.Real(t)
	schema := compileProtocol(t)
	store := NewStore()
	var at position
	for _, now := range []time.Duration{5 * time.Second, 43 * time.Second, sample.Length} {
		if err := publish.To(store).Show(sample.Run(now), now); err != nil {
			t.Fatal(err)
		}
		store.Delete("window/1")
		for d := (Delta{More: true}); d.More; {
			d = store.next(&at, 50_000)
			if err := validate(t, schema, d); err != nil {
				t.Fatalf("a delta at %v: %v", now, err)
			}
		}
	}
	snap := store.Snapshot()
	if err := validate(t, schema, snap); err != nil {
		t.Errorf("the snapshot: %v", err)
	}
	for key := range snap.Entries {
		if !documentedKey(key) {
			t.Errorf("key %q is not documented", key)
		}
	}
}

func documentedKey(key string) bool {
	for _, k := range keys {
		if regexp.MustCompile(k.pattern).MatchString(key) {
			return true
		}
	}
	return false
}

func TestTheSchemaRefusesWhatTheProtocolDoesNotAllow(t *testing.T) {
	schema := compileProtocol(t)
	good := map[string]any{"protocol": 1, "epoch": "E", "seq": 3}
	if err := validate(t, schema, good); err != nil {
		t.Fatalf("an empty delta: %v", err)
	}
	for name, change := range map[string]map[string]any{
		"another protocol":     {"protocol": 2},
		"a number as epoch":    {"epoch": 1},
		"a negative seq":       {"seq": -1},
		"a window of no shape": {"put": map[string]any{"window/1": map[string]any{"id": "one"}}},
		"a chunk without start": {"put": map[string]any{"bucket/web new/0": map[string]any{
			"sent": []int{}, "failed": []int{}, "unobserved": []float64{}, "latency": []any{}}}},
		"live as a word": {"put": map[string]any{"live": "yes"}},
	} {
		message := map[string]any{"protocol": 1, "epoch": "E", "seq": 3}
		maps.Copy(message, change)
		if validate(t, schema, message) == nil {
			t.Errorf("%s is valid", name)
		}
	}
}
