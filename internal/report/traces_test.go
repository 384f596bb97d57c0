package report

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/record"
	"lapse/internal/report/otlp"
)

// keptRun is the recording that every Lapse reads, judged. Its sentences are left out: they may be said in other words.
func keptRun(t *testing.T) *model.Timeline {
	t.Helper()
	f, err := record.Open("../record/testdata/format5.lapse")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	tl, err := correlate.Analyze(run, correlate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := verdict.ParseGate("failed>0")
	if err != nil {
		t.Fatal(err)
	}
	tl.Tool = model.Tool{Name: "lapse", Version: "v1"}
	verdict.Judge(tl, []verdict.Gate{gate})
	tl.Said = model.Said{Word: tl.Said.Word, Headline: "headline"}
	for i := range tl.Windows {
		w := &tl.Windows[i]
		w.Said = model.WindowSaid{Lasted: "lasted"}
		for j := range w.Causes {
			withoutWords(&w.Causes[j])
		}
	}
	for i := range tl.Incidents {
		in := &tl.Incidents[i]
		in.Said = model.IncidentSaid{Headline: "incident"}
		for j := range in.Causes {
			withoutWords(&in.Causes[j].Cause)
		}
	}
	return tl
}

func withoutWords(c *model.Cause) { c.Text, c.Fix, c.Evidence, c.Rivals = "text", "fix", nil, nil }

// traceOf writes a run as a trace in a format.
func traceOf(t *testing.T, format string, tl *model.Timeline) []byte {
	t.Helper()
	var out bytes.Buffer
	f, _ := FormatNamed(Formats, format)
	if err := f.Write(&out, Saved{Judged: tl}, Options{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTracesAreAsCommitted(t *testing.T) {
	runs := map[string]*model.Timeline{"kept": keptRun(t), "held": heldConnections()}
	for name, tl := range runs {
		golden(t, "traces/"+name+".perfetto.json", traceOf(t, "perfetto", tl))
		golden(t, "traces/"+name+".otlp.json", bytes.ReplaceAll(traceOf(t, "otlp", tl), []byte(`{"key"`), []byte("\n"+`{"key"`)))
		if first, again := traceOf(t, "otlp", tl), traceOf(t, "otlp", tl); !bytes.Equal(first, again) {
			t.Errorf("%s: written twice, it is not the same", name)
		}
	}
}

// A traceEvent is an entry of the Trace Event Format, read back.
type traceEvent struct {
	Name, Cat, Ph, BP, S string
	TS, Dur              *int64
	PID, TID, ID         int
	Args                 map[string]any
}

func (e traceEvent) end() int64 { return *e.TS + *e.Dur }

// readTrace reads a trace, and holds what the format demands of an entry.
func readTrace(t *testing.T, text []byte) []traceEvent {
	t.Helper()
	var trace struct {
		DisplayTimeUnit string
		OtherData       map[string]string
		TraceEvents     []traceEvent
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatal(err)
	}
	if trace.DisplayTimeUnit != "ms" || trace.OtherData["t0"] == "" || !strings.Contains(trace.OtherData["clock"], "microseconds") {
		t.Errorf("the trace does not say its clock: %q %v", trace.DisplayTimeUnit, trace.OtherData)
	}
	for i, e := range trace.TraceEvents {
		bad := e.Name == "" || e.TS == nil || *e.TS < 0 || e.PID == 0 || e.TID == 0
		bad = bad || i > 0 && *e.TS < *trace.TraceEvents[i-1].TS
		switch e.Ph {
		case "M":
			bad = bad || e.Args["name"] == nil && e.Args["sort_index"] == nil
		case "X":
			bad = bad || e.Dur == nil || *e.Dur < 0
		case "i":
			bad = bad || e.S != "t"
		case "C":
			bad = bad || e.Args["failed"] == nil || e.Args["sent"] == nil
		case "s", "f":
			bad = bad || e.ID == 0 || (e.Ph == "f") != (e.BP == "e")
		default:
			bad = true
		}
		if bad {
			t.Errorf("event %d is not what the format has: %+v", i, e)
		}
	}
	return trace.TraceEvents
}

// What Perfetto's importer demands, read in the order in which it reads: each thread and process has one name, slices
// of a thread nest, and an arrow leads from the innermost open slice to another one.
// https://github.com/google/perfetto/blob/main/src/trace_processor/importers/json
func TestSlicesNestAndArrowsLeadFromTriggersToWindows(t *testing.T) {
	runs := map[string]*model.Timeline{"kept": keptRun(t)}
	for name, sample := range samples {
		runs[name] = sample()
	}
	arrows := 0
	for name, tl := range runs {
		t.Run(name, func(t *testing.T) {
			named, processOf := map[string]int{}, map[int]int{}
			open := map[int][]traceEvent{} // slices of each thread
			from := map[string]traceEvent{}
			got := map[string]int{}
			for _, e := range readTrace(t, traceOf(t, "perfetto", tl)) {
				if e.Ph == "M" {
					named[fmt.Sprint(e.Name, " ", e.TID)]++
					continue
				}
				if pid, known := processOf[e.TID]; known && pid != e.PID || named[fmt.Sprint("thread_name ", e.TID)] != 1 || named[fmt.Sprint("process_name ", e.PID)] != 1 {
					t.Fatalf("thread %d of process %d: %v", e.TID, e.PID, named)
				}
				processOf[e.TID] = e.PID
				stack := slices.DeleteFunc(open[e.TID], func(o traceEvent) bool { return *o.Dur > 0 && o.end() <= *e.TS })
				switch e.Ph {
				case "X":
					if n := len(stack); n > 0 && stack[n-1].end() < e.end() {
						t.Errorf("%+v overlaps %+v", e, stack[n-1])
					}
					stack = append(stack, e)
				case "s":
					from[fmt.Sprint(e.Cat, e.Name, e.ID)] = stack[len(stack)-1]
				case "f":
					key := fmt.Sprint(e.Cat, e.Name, e.ID)
					trigger, window := from[key], stack[len(stack)-1]
					delete(from, key)
					if trigger.Cat != "trigger" || window.Cat != "window" {
						t.Errorf("an arrow from %+v to %+v", trigger, window)
					}
					got[fmt.Sprint(trigger.Args["event"], " → ", window.Args["id"])]++
				}
				open[e.TID] = stack
			}
			want := map[string]int{}
			for _, in := range tl.Incidents {
				for _, trigger := range in.Triggers {
					for _, id := range in.Windows {
						want[fmt.Sprint(trigger.Event, " → ", id)]++
					}
				}
			}
			if len(from) > 0 || !maps.Equal(got, want) {
				t.Errorf("arrows %v, want %v; without an end: %v", got, want, from)
			}
			arrows += len(got)
		})
	}
	if arrows < 3 {
		t.Errorf("the samples have %d arrows: too few to prove anything", arrows)
	}
}

// OTLP/JSON is protobuf's JSON but for IDs: with those in base64, protobuf's own reader reads it.
func TestOTLPInJSONIsTheTraceThatIsSent(t *testing.T) {
	for name, sample := range samples {
		text := traceOf(t, "otlp", sample())
		if bytes.Count(text, []byte("\n")) != 1 {
			t.Errorf("%s is not one line", name)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		base64IDs(value)
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got := new(tracepb.TracesData)
		if err := protojson.Unmarshal(text, got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := otlp.Trace(sample(), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s: read %v, want %v", name, got, want)
		}
		if _, err := proto.Marshal(want); err != nil {
			t.Errorf("%s cannot be sent: %v", name, err)
		}
	}
}

func base64IDs(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			base64IDs(v)
		}
	case map[string]any:
		for key, v := range value {
			if text, ok := v.(string); ok && slices.Contains([]string{"traceId", "spanId", "parentSpanId"}, key) {
				id, err := hex.DecodeString(text)
				if err != nil {
					panic(err)
				}
				value[key] = base64.StdEncoding.EncodeToString(id)
			}
			base64IDs(v)
		}
	}
}
