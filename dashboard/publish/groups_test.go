package publish

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A groupCase is a line of the table that this package and the page (ui/test/sources.test.ts) are both held to: of
// few targets the page makes the groups itself, of many it gets them from here.
type groupCase struct {
	Name       string               `json:"name"`
	Sources    []model.Source       `json:"sources"`
	Targets    []model.Target       `json:"targets"`
	Windows    []model.Window       `json:"windows"`
	Unobserved []model.Unobserved   `json:"unobserved"`
	Series     []model.BucketSeries `json:"series"`

	Groups   []wantGroup   `json:"groups"`
	Together *wantTogether `json:"together"`
}

type wantGroup struct {
	Name         string              `json:"name"`
	Kind         timeline.TargetKind `json:"kind"`
	Members      []timeline.TargetID `json:"members"`
	Rate         float64             `json:"rate"`
	AchievedRate float64             `json:"achievedRate"`
	Sent         int                 `json:"sent"`
	Failed       int                 `json:"failed"`
	NotSent      int                 `json:"notSent"`
	Late         int                 `json:"late"`
	Coverage     float64             `json:"coverage"`
	Agree        bool                `json:"agree"`
}

type wantTogether struct {
	Share   []float64                 `json:"share"`
	Gap     []bool                    `json:"gap"`
	Classes map[string]map[string]int `json:"classes"` // by slot
}

func TestGroupsAreThoseOfThePage(t *testing.T) {
	text, err := os.ReadFile("testdata/groups.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []groupCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("the table is empty")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if diff := cmp.Diff(c.Groups, c.made()); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if c.Together == nil {
				return
			}
			if diff := cmp.Diff(c.Together, c.together()); diff != "" {
				t.Errorf("together (-want +got):\n%s", diff)
			}
		})
	}
}

// made are the groups of the case.
func (c groupCase) made() (all []wantGroup) {
	tl := &model.Timeline{Sources: c.Sources, Targets: c.Targets, Windows: c.Windows, Unobserved: c.Unobserved}
	groups := groupsOf(tl)
	judge(groups, tl)
	for _, g := range groups {
		made := wantGroup{
			Name: g.Name, Kind: g.Kind, Rate: g.Rate, AchievedRate: g.AchievedRate, Sent: g.Sent, Failed: g.Failed, NotSent: g.NotSent, Late: g.Late,
			Coverage: g.Coverage, Agree: g.Agree,
		}
		for _, t := range g.members {
			made.Members = append(made.Members, t.ID)
		}
		all = append(all, made)
	}
	return all
}

// together is what the case's series show in one row.
func (c groupCase) together() *wantTogether {
	w := &worst{}
	for _, s := range c.Series {
		w.add(s)
	}
	made := &wantTogether{Share: w.share, Gap: w.gap, Classes: map[string]map[string]int{}}
	for class, counts := range w.classes {
		for slot, n := range counts {
			if n == 0 {
				continue
			}
			at := strconv.Itoa(slot)
			if made.Classes[at] == nil {
				made.Classes[at] = map[string]int{}
			}
			made.Classes[at][class] = n
		}
	}
	return made
}
