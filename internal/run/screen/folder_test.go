package screen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/correlate/trend"
	"lapse/dashboard"
	"lapse/internal/history"
	"lapse/internal/run/saved"
)

// save writes a run's timeline.json.
func save(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "timeline.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderOfRunsIsListedFromWhatWasJudged(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "before"), `{"t0": "2026-11-25T13:03:26Z", "verdict": {"result": "fail", "failed": 174, "sent": 10453},
		"said": {"headline": "174 of 10453 requests failed"}, "incidents": [
			{"downtime": {"min": 1, "max": 2}, "causes": [{"rule": "node-lost"}]},
			{"downtime": {"min": 5, "max": 9}, "causes": [{"rule": "route-outlives-pod"}]}]}`)
	save(t, filepath.Join(dir, "broken"), `{"verdict": {"result": "pass"}, "said": {"word": "COMMAND FAILED"}}`)
	save(t, filepath.Join(dir, "damaged"), `{`)
	if err := os.Mkdir(filepath.Join(dir, "no-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	load := func(string) (*model.Timeline, error) { return nil, errors.New("it holds no facts") }
	folder, ok, err := Several([]string{dir}, load)
	if !ok || err != nil {
		t.Fatal(err)
	}
	runs := folder.Runs().Listed
	if len(runs) != 3 {
		t.Fatalf("%d runs, want 3", len(runs))
	}
	before, broken, damaged := runs[0], runs[1], runs[2]
	if before.Name != "before" || before.Word != "FAIL" || before.Failed != 174 || before.Sent != 10453 ||
		before.Cause != "route-outlives-pod" {
		t.Errorf("it is listed as %+v", before)
	}
	if broken.Word != "COMMAND FAILED" {
		t.Errorf("a run whose command failed is listed as %+v", broken)
	}
	if damaged.Word != "not judged" {
		t.Errorf("a run whose timeline.json is damaged is listed as %+v", damaged)
	}
	if _, _, err := folder.Open("damaged"); err == nil {
		t.Error("a run that cannot be judged is opened")
	}
	for _, name := range []string{"before", "no-run"} {
		if _, ok, _ := Several([]string{filepath.Join(dir, name)}, load); ok {
			t.Errorf("%s is taken for a folder of runs", name)
		}
	}
}

// line returns that of a run of 20 s that dropped requests.
func line(run, service string, at time.Time) history.Line {
	return history.Line{
		History: 1, Run: run, Service: service, T0: at, Duration: 20 * time.Second, Sent: 900, Failed: 3, Coverage: 1,
		Downtime: &model.Downtime{Total: model.Length{Min: time.Second, Max: time.Second}},
		Causes:   []history.Cause{{Rule: "route-outlives-pod", Failed: 3}}, Verdict: model.Fail,
		Triggers: []history.Trigger{{Kind: model.NodeDrained, Object: "Node/node1"}},
	}
}

// Of a run that was deleted its line is left, in the history or outside of the directory. It is listed once, with all
// that is known of it, and counts in days and trend; what the directory has measured itself is not listed again.
func TestRunsOfWhichOnlyALineIsLeftAreListed(t *testing.T) {
	dir, now := t.TempDir(), time.Now().UTC().Truncate(24*time.Hour) // no run goes on over midnight
	here := line("lapse-here", "shop/web", now.Add(-time.Hour))
	save(t, filepath.Join(dir, "named"), fmt.Sprintf(`{"t0": %q, "run": {"id": "lapse-here", "duration": 20000000000,
		"services": [{"namespace": "shop", "name": "web", "uid": "uid"}]}, "verdict": {"result": "pass", "sent": 9}}`, here.T0.Format(time.RFC3339Nano)))
	deleted, elsewhere := line("lapse-deleted", "shop/web", now.Add(-2*time.Hour)), line("lapse-elsewhere", "shop/web", now.Add(-3*time.Hour))
	two := []history.Line{line("lapse-two", "shop/api", now.Add(-4*time.Hour)), line("lapse-two", "shop/web", now.Add(-4*time.Hour))}
	if err := history.Append(filepath.Join(dir, saved.HistoryFile), append(two, here, deleted, deleted)...); err != nil {
		t.Fatal(err)
	}
	other := line("lapse-of-the-other-guard", "shop/web", here.T0.Add(time.Second)) // says no more than what is here
	other.Failed, other.Verdict, other.Causes = 0, model.Pass, nil
	gone := []Gone{
		{Line: elsewhere, Reason: "3 of 900 failed; down 1 s", Fix: "keep serving"},
		{Line: other},
		{Line: deleted, Fix: "keep serving"},
	}
	folder := Folder(dir, nil, func() []Gone { return gone })
	runs := folder.Runs()
	type row struct {
		Name   string
		Gone   bool
		Failed int
	}
	var got []row
	for _, l := range runs.Listed {
		got = append(got, row{l.Name, l.Gone, l.Failed})
	}
	want := []row{{"named", false, 0}, {"lapse-deleted", true, 3}, {"lapse-elsewhere", true, 3}, {"lapse-two", true, 6}}
	if !slices.Equal(got, want) || runs.Older != 0 {
		t.Errorf("listed are %v, and %d older ones", got, runs.Older)
	}
	wantDeleted := dashboard.Listed{
		Name: "lapse-deleted", Services: []string{"shop/web"}, SetOff: "drain of node1", Began: deleted.T0, Ended: deleted.T0.Add(20 * time.Second), Word: "FAIL", Result: "fail",
		Outcome: "dropped", Down: "1 s", Cause: "route-outlives-pod", Fix: "keep serving", Failed: 3, Sent: 900, Gone: true,
	}
	if diff := cmp.Diff(wantDeleted, runs.Listed[1]); diff != "" {
		t.Error(diff)
	}
	counted := map[string]int{}
	for _, of := range runs.Days.([]trend.ServiceDays) {
		for _, d := range of.Days {
			counted[of.Service] += d.Runs
		}
	}
	if counted["shop/web"] != 4 || counted["shop/api"] != 1 {
		t.Errorf("the days count %v runs", counted)
	}
	if text := fmt.Sprint(runs.Trend); !strings.Contains(text, "3 of 3") {
		t.Errorf("the trend is %s", text)
	}
	worse := line("lapse-worse", "shop/web", here.T0)
	worse.UID, worse.Failed = "uid", 4
	gone = append(gone, Gone{Line: worse})
	if again := folder.Runs(); again.Listed[0].Again != "lapse-worse" {
		t.Errorf("a run that another one counts for is listed as %+v", again.Listed[0])
	}
	gone = append(gone, Gone{Line: line("lapse-later", "shop/api", now.Add(-time.Minute))})
	if again := folder.Runs(); again.Version == runs.Version || again.Listed[1].Name != "lapse-later" {
		t.Errorf("a run that is known since is not listed: %+v", again.Listed)
	}
}

// Two Services of one workload, and a URL beside them, are one run, with one release.
func TestARunOfServicesAndURLsIsListedOnce(t *testing.T) {
	lines := []history.Line{line("lapse-1", "shop/web", time.Now()), line("lapse-1", "shop/web-admin", time.Now()), line("lapse-1", "", time.Now())}
	lines[2].URLs = []string{"https://a.example/", "https://b.example/"}
	for i := range lines {
		lines[i].Release.Templates = []string{"54cf597767", "5f9dd68475"}
	}
	got := listedAs("lapse-1", lines)
	want := []string{"shop/web", "shop/web-admin", "https://a.example/ https://b.example/"}
	if !slices.Equal(got.Services, want) || !slices.Equal(got.Release, lines[0].Release.Templates) || got.Failed != 9 {
		t.Errorf("%+v", got)
	}
}

// What another guard has measured is left out only if a run of the same time here says as much: one that is next to it
// says nothing of it, and one that is inconclusive less than a pass. Of two that are listed the one that says worse
// counts.
func TestARunOfAnotherGuardIsLeftOutOnlyIfOneHereSaysAsMuch(t *testing.T) {
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(-time.Hour) // no run goes on over midnight
	during := func(run string, from, to time.Duration, failed int, verdict model.Result) history.Line {
		l := line(run, "shop/web", now.Add(from*time.Second))
		l.UID, l.Duration, l.Failed, l.Verdict, l.Causes = "uid", (to-from)*time.Second, failed, verdict, nil
		return l
	}
	for name, test := range map[string]struct {
		here, gone       history.Line
		listed           []string // with the run that counts instead
		runs, unmeasured int
		failed           int // requests
	}{
		"the next run of the other": {
			during("here", 0, 100, 20, model.Fail), during("gone", 98, 300, 5, model.Fail), []string{"gone", "here"}, 2, 0, 25,
		},
		"a pass of what is inconclusive here": {
			during("here", 0, 100, 0, model.Inconclusive), during("gone", 5, 101, 0, model.Pass), []string{"gone", "here again: gone"}, 1, 0, 0,
		},
		"what was inconclusive there": {
			during("here", 0, 100, 0, model.Pass), during("gone", 5, 101, 0, model.Inconclusive), []string{"here"}, 1, 0, 0,
		},
		"what failed there by another gate": {
			during("here", 0, 100, 0, model.Pass), during("gone", 5, 101, 0, model.Fail), []string{"gone", "here again: gone"}, 1, 0, 0,
		},
		"more failures of the same, before it was evicted": {
			during("here", 0, 100, 20, model.Fail), during("gone", 2, 12, 23, model.Fail), []string{"gone", "here again: gone"}, 1, 0, 23,
		},
		"fewer failures of the same": {
			during("here", 0, 100, 20, model.Fail), during("gone", 5, 101, 5, model.Fail), []string{"here"}, 1, 0, 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := history.Append(filepath.Join(dir, saved.HistoryFile), test.here); err != nil {
				t.Fatal(err)
			}
			runs := Folder(dir, nil, func() []Gone { return []Gone{{Line: test.gone}} }).Runs()
			var listed []string
			for _, l := range runs.Listed {
				name := l.Name
				if l.Again != "" {
					name += " again: " + l.Again
				}
				listed = append(listed, name)
			}
			var all trend.Day
			for _, d := range runs.Days.([]trend.ServiceDays)[0].Days {
				all.Runs, all.Unmeasured, all.Failed = all.Runs+d.Runs, all.Unmeasured+d.Unmeasured, all.Failed+d.Failed
			}
			if !slices.Equal(listed, test.listed) {
				t.Errorf("listed are %q, want %q", listed, test.listed)
			}
			if all.Runs != test.runs || all.Unmeasured != test.unmeasured || all.Failed != test.failed {
				t.Errorf("the days count %+v", all)
			}
		})
	}
}

// A history of years is not listed to its beginning. How many runs are left out is known.
func TestTheOldestRunsThatAreGoneAreOnlyCounted(t *testing.T) {
	dir, now := t.TempDir(), time.Now().UTC()
	var lines []history.Line
	for i := range mostGone + 7 {
		lines = append(lines, line(fmt.Sprint("lapse-", i), "shop/web", now.Add(-time.Duration(i)*time.Minute)))
	}
	if err := history.Append(filepath.Join(dir, saved.HistoryFile), lines...); err != nil {
		t.Fatal(err)
	}
	folder, ok, err := Several([]string{dir}, nil)
	if !ok || err != nil {
		t.Fatalf("a directory with nothing but a history is not listed: %v", err)
	}
	if runs := folder.Runs(); len(runs.Listed) != mostGone || runs.Older != 7 || runs.Listed[0].Name != "lapse-0" {
		t.Errorf("%d runs are listed, and %d not", len(runs.Listed), runs.Older)
	}
}

func TestComparedRunsHaveDifferentNames(t *testing.T) {
	load := func(string) (*model.Timeline, error) { return &model.Timeline{}, nil }
	for _, tt := range []struct{ a, b, first, second string }{
		{"runs/before", "runs/after/", "before", "after"},
		{"a/run", "b/run", "1-run", "2-run"},
		{"x,y", "z", "x_y", "z"},
		{".", "../b", "screen", "b"},
		{"..", "b", "run", "b"},
	} {
		folder, ok, err := Several([]string{tt.a, tt.b}, load)
		if !ok || err != nil || folder.Compared[0] != tt.first || folder.Compared[1] != tt.second {
			t.Errorf("%s and %s are %q (%v), want %s and %s", tt.a, tt.b, folder.Compared, err, tt.first, tt.second)
		}
	}
}
