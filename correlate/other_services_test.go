package correlate

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lapse/correlate/verdict"
	"lapse/timeline"
)

// What was not watched of another namespace's Service weakens no cause, and places no event less exactly; what was
// not watched of our own does, in some of the cases.
func TestOnlyTheWatchesOfTheWindowsServiceMatter(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	weaker := map[timeline.EventKind]int{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		judged := func(more ...timeline.Event) string {
			run := readCase(t, archive).run()
			run.Events = append(more, run.Events...) // a gap is recorded before what comes in its wake
			tl := analyzed(t, run)
			verdict.Judge(tl, nil)
			return printWindows(tl) + printPods(tl)
		}
		if section(archive, "url") != "" {
			continue // it may lead to any Service
		}
		unwatched := func(service string) []timeline.Event {
			gaps := []timeline.Event{
				{Kind: timeline.WatchLane, To: "off", Object: timeline.Object{Kind: "EndpointSlice"}},
				{Kind: timeline.WatchGap, Since: time.Millisecond, Seen: 14 * time.Second},
				{Kind: timeline.WatchGap, Since: time.Millisecond, Seen: 14 * time.Second,
					Object: timeline.Object{Kind: "EndpointSlice"}},
			}
			for i := range gaps {
				gaps[i].ID, gaps[i].Source, gaps[i].Writer, gaps[i].Services = uint32(1000+i), 1, "lapse",
					[]string{service}
			}
			return gaps
		}
		want := judged()
		if diff := cmp.Diff(want, judged(unwatched("bank/web")...)); diff != "" {
			t.Errorf("%s: what was not watched of bank/web changed the judgement of shop/web: %s", file, diff)
		}
		for _, gap := range unwatched("shop/web") {
			if weaker[gap.Kind] < 3 && judged(gap) != want {
				weaker[gap.Kind]++
			}
		}
	}
	if weaker[timeline.WatchLane] == 0 || weaker[timeline.WatchGap] == 0 {
		t.Errorf("cases that differ where shop/web was not watched: %v, want some of each kind", weaker)
	}
}
