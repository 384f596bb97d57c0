package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// The gate answers for the newest run of each Service: it outlives any number of others, and any age. Of those that do
// not fit the ones that passed go first.
func TestTheNewestRunOfEachServiceStays(t *testing.T) {
	now := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, runs string // a letter is a Service, in capitals its run failed
		limits     Limits
		stays      string
	}{
		{"by size", "BbAAaa", Limits{Bytes: 3}, "bAa"},
		{"by age", "abaa", Limits{Age: time.Second}, "ba"},
		{"a failed one is not the newest", "Abab", Limits{Bytes: 2}, "ab"},
		{"too many", "aBcd", Limits{Bytes: 2}, "Bd"},
	} {
		var runs []Kept
		for i, v := range test.runs {
			verdict := model.Pass
			if unicode.IsUpper(v) {
				verdict = model.Fail
			}
			ended := now.Add(-time.Duration(len(test.runs)-i) * time.Minute)
			runs = append(runs, Kept{Name: fmt.Sprintf("%d%c", i, v), Ended: ended, Bytes: 1, Verdict: verdict, line: history.Line{Service: strings.ToLower(string(v))}})
		}
		gone := test.limits.Excess(runs, now)
		runs = slices.DeleteFunc(runs, func(r Kept) bool { return slices.Contains(gone, r.Name) })
		stays := ""
		for _, r := range runs {
			stays += r.Name[1:]
		}
		if stays != test.stays {
			t.Errorf("%s: of %s stays %s, want %s", test.name, test.runs, stays, test.stays)
		}
	}
}

// Which runs are deleted: P passed, F failed, I showed nothing, one each minute, the newest last. Those in small letters
// are to be kept elsewhere, and are not yet.
func TestFailedRunsOutliveOthers(t *testing.T) {
	now := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	verdicts := map[rune]model.Result{'P': model.Pass, 'F': model.Fail, 'I': model.Inconclusive, 'U': model.Ungated, '?': ""}
	for _, test := range []struct {
		name   string
		runs   string
		limits Limits
		stays  string
	}{
		{"without limits all stay", "PFIPFP", Limits{}, "PFIPFP"},
		{"no run", "", Limits{Bytes: 1, Age: 1}, ""},
		{"by size the oldest passed goes first", "PFPFP", Limits{Bytes: 4}, "FPFP"},
		{"failed runs outlive those that passed", "FPPPPPPPF", Limits{Bytes: 2}, "FF"},
		{"and those that show nothing", "FIUP?F", Limits{Bytes: 3}, "F?F"},
		{"those that passed go before those that show nothing", "IPIPI", Limits{Bytes: 3}, "III"},
		{"the oldest failed go last", "FFFFF", Limits{Bytes: 2}, "FF"},
		{"the newest stays, even if it passed", "FFP", Limits{Bytes: 1}, "P"},
		{"by age, passed runs go", "PPPPP", Limits{Age: 150 * time.Second}, "PP"},
		{"by age, ten failed runs stay", "FFFFFFFFFFFFPPPPPP", Limits{Age: 90 * time.Second}, "FFFFFFFFFFP"},
		{"a single old run stays", "P", Limits{Age: time.Second}, "P"},
		{"what is nowhere else outlives what is, even if that failed", "pFFP", Limits{Bytes: 2}, "pP"},
		{"of what is nowhere else those that passed go first", "fppP", Limits{Bytes: 3}, "fpP"},
		{"what is nowhere else does not get too old", "pPfP", Limits{Age: time.Second}, "pfP"},
	} {
		var runs []Kept
		for i, v := range test.runs {
			ended := now.Add(-time.Duration(len(test.runs)-i) * time.Minute)
			runs = append(runs, Kept{Name: fmt.Sprintf("%d%c", i, v), Ended: ended, Bytes: 1, Verdict: verdicts[unicode.ToUpper(v)], Waits: unicode.IsLower(v)})
		}
		gone := map[string]bool{}
		for _, name := range test.limits.Excess(runs, now) {
			gone[name] = true
		}
		var stays strings.Builder
		for _, r := range runs {
			if !gone[r.Name] {
				stays.WriteString(r.Name[len(r.Name)-1:])
			}
		}
		if stays.String() != test.stays {
			t.Errorf("%s: of %s stays %s, want %s", test.name, test.runs, stays.String(), test.stays)
		}
	}
}
