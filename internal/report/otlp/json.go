package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"lapse/internal/report/document"
)

// JSON writes a trace as OTLP/JSON, in one line, as a collector's file receiver reads it.
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
func JSON(w io.Writer, trace *tracepb.TracesData) error {
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(trace)
	if err != nil {
		return fmt.Errorf("encode trace: %w", err)
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("encode trace: %w", err)
	}
	hexIDs(value)
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode trace: %w", err)
	}
	_, err = w.Write(document.CleanJSON(line.Bytes()))
	return err
}

// hexIDs writes IDs as OTLP/JSON has them. All else is as protobuf's own JSON, which has bytes in base64.
func hexIDs(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			hexIDs(v)
		}
	case map[string]any:
		for key, v := range value {
			if key != "traceId" && key != "spanId" && key != "parentSpanId" {
				hexIDs(v)
				continue
			}
			if id, err := base64.StdEncoding.DecodeString(fmt.Sprint(v)); err == nil {
				value[key] = hex.EncodeToString(id)
			}
		}
	}
}
