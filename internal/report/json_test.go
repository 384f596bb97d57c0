package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A timeline is written part by part, and reads as if it had been laid out as a whole.
func TestPartsOfATimelineAreLaidOutAsAWhole(t *testing.T) {
	long := many()
	for i := range 3 * manyEntries {
		long.Events = append(long.Events, model.Event{Event: timeline.Event{ID: uint32(1000 + i), Detail: fmt.Sprintf("<%d> \"quoted\" \\ & ü", i)}})
		long.Failures = append(long.Failures, model.Failure{Target: "web new", Seq: uint64(i)})
	}
	slots := make([]int, 2*manyEntries)
	long.Buckets = model.Buckets{Width: 1e8, Targets: map[string]model.BucketSeries{
		`b "x" <y>`: {Sent: slots, Failed: slots, Unobserved: make([]float64, len(slots)), Latency: make([]model.Histogram, len(slots)), Classes: map[string]model.SparseCounts{"refused": {1, 2}}},
		"a":         {Sent: []int{1}, Failed: []int{0}, Unobserved: []float64{0}, Latency: make([]model.Histogram, 1)},
	}}
	for name, tl := range map[string]*model.Timeline{"empty": {}, "race": race(), "rollout": rollout(), "two Services": twoServices(), "hostile names": hostileNames(), "live": live(), "many": many(), "long": long} {
		var compact, want, got bytes.Buffer
		encoder := json.NewEncoder(&compact)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(tl); err != nil {
			t.Fatal(err)
		}
		out := bufio.NewWriter(&want)
		p := partWriter{out: out}
		p.layOut(bytes.TrimSpace(compact.Bytes()), "", false)
		_ = out.WriteByte('\n')
		_ = out.Flush()
		if err := JSON(&got, tl, Options{}); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			at := 0
			for at < min(got.Len(), want.Len()) && got.Bytes()[at] == want.Bytes()[at] {
				at++
			}
			t.Errorf("%s: %v; at byte %d it reads %.200q, want %.200q", name, err, at, got.Bytes()[at:], want.Bytes()[at:])
		}
		asked, kept := *tl, tl.Buckets.Targets
		asked.Buckets = model.MadeWhenAsked(tl.Buckets.Width, slices.Collect(maps.Keys(kept)), func(target string) model.BucketSeries { return kept[target] })
		var made bytes.Buffer
		if err := JSON(&made, &asked, Options{}); err != nil || kept != nil && !bytes.Equal(made.Bytes(), want.Bytes()) {
			t.Errorf("%s: %v; with series that are made when they are asked for it reads otherwise", name, err)
		}
	}
}

func TestJSONHoldsNoCommandToARunner(t *testing.T) {
	const text = "##[set-output name=v;]pass ##vso[task.complete]x ## heading"
	var out strings.Builder
	p := partWriter{out: bufio.NewWriter(&out)}
	p.whole("", false, text)
	p.out.Flush()
	var got string
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got != text || strings.Contains(out.String(), "##[") || strings.Contains(out.String(), "##vso[") {
		t.Errorf("%s is read as %q: %v", out.String(), got, err)
	}
}
