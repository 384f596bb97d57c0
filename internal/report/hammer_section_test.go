package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

func loadSection(change func(*model.Timeline)) string {
	tl := race()
	change(tl)
	p := document.NewPage(document.Screen{Width: 160, Unicode: true})
	p.Print(document.Document{Sections: []document.Section{hammerSection(&view{Timeline: tl})}})
	return p.String()
}

func TestBackgroundLoadSaysWhenItRanAndWhatItsZeroIsWorth(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*model.Timeline)
		want   []string
		not    string
	}{
		{"ended before the run", func(*model.Timeline) {}, []string{"hey -c 50 -q 20", ", 10 s before the run's end", "12 × dial tcp", "status 200 × 69860, 503 × 2", heyNote}, "recorded"},
		{"ended with the run", func(tl *model.Timeline) { *tl.Hammer.End = 80*s + 9*ms }, []string{"02:20:40.002 to 02:22:00.009"}, "before"},
		{"no error", func(tl *model.Timeline) { tl.Hammer.Summary.Errors = nil }, []string{"0 errors", heyNote}, "dial tcp"},
		{"no reply", func(tl *model.Timeline) { tl.Hammer.Summary.Latency, tl.Hammer.Summary.Statuses = nil, nil }, []string{"69874 requests at 998/s · 12 errors"}, "replies"},
		{"all answered", func(*model.Timeline) {}, []string{"12 errors\n"}, "unanswered"},
		{"some cut off", func(tl *model.Timeline) { tl.Hammer.Summary.Unanswered = 5 }, []string{"12 errors · 5 more were unanswered a"}, "recorded"},
		{"failed", func(tl *model.Timeline) { tl.Hammer.Summary, tl.Hammer.Error = nil, "no such host" }, []string{"failed: no such host"}, "requests"},
		{"the record breaks off", func(tl *model.Timeline) { tl.Hammer.Summary, tl.Hammer.End = nil, nil }, []string{"end that was not recorded"}, "requests"},
		{"under way", func(tl *model.Timeline) { tl.Hammer.Summary, tl.Hammer.End, tl.Run.Live = nil, nil, true }, []string{"since 02:20:40.002"}, "recorded"},
		{"never began", func(tl *model.Timeline) { tl.Hammer.Summary, tl.Hammer.End, tl.Hammer.Start = nil, nil, nil }, []string{"never began"}, "recorded"},
	} {
		got := loadSection(tt.change)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
		if strings.Contains(got, tt.not) {
			t.Errorf("%s: %q in\n%s", tt.name, tt.not, got)
		}
	}
}

func TestBackgroundLoadShowsItsCommonestErrors(t *testing.T) {
	got := loadSection(func(tl *model.Timeline) {
		tl.Hammer.Summary.Errors = map[string]int{"a": 1, "b": 9, "c": 8, "d": 7, "e": 6, "f": 5, "g": 2}
	})
	for _, want := range []string{"38 errors", "9 × b", "5 × f", "3 × other errors"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestProgressTellsOfTheBackgroundLoad(t *testing.T) {
	tl := race()
	tl.Events = events(
		hammerEvent(2*ms, "running", "-c 5"), hammerEvent(5*s, "ended", `{"NumRes":5}`), hammerEvent(6*s, "ended", "no such host"))
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{Unicode: true})
	p.Update(tl, 7*time.Second)
	for _, want := range []string{"0.0 s  background load: hey -c 5\n", "5.0 s  background load ended\n", "6.0 s  background load failed: no such host\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func hammerEvent(seen time.Duration, to, detail string) timeline.Event {
	return timeline.Event{Seen: seen, Kind: timeline.Hammer, To: to, Detail: detail}
}
