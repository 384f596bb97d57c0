package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
)

// Lengths stand side by side, up to the first that leaves nothing, with what it left.
func TestKeepServingHasAColumnForEachLength(t *testing.T) {
	tl := &model.Timeline{Verdict: model.Verdict{Result: model.Fail}}
	tl.KeepServing = &model.KeepServing{Failed: 96, Others: 3, Left: []model.ServedLonger{
		{Longer: 100 * time.Millisecond, Min: 80, Max: 84}, {Longer: 200 * time.Millisecond, Min: 65, Max: 65}, {Longer: 300 * time.Millisecond, Min: 40, Max: 45}, {Longer: 700 * time.Millisecond},
	}}
	var out bytes.Buffer
	if err := Markdown(&out, tl, Options{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\u00a0", " ")), " ")
	for _, want := range []string{"| longer by | as it was | 100 ms | 200 ms | 700 ms |", "| still failed | 96 | 80 to 84 | 65 | 0 |", "3 other failures it is not known to mend"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
