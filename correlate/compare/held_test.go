package compare

import (
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// heldRun is a run that held 100 connections.
func heldRun(h model.Held) *model.Timeline {
	tl := runOf(6000, 0)
	h.Target, h.Connections, h.Stood = "web held", 100, 100
	if h.Back != nil && h.List == nil {
		h.List = []model.HeldCut{{Back: &model.Instant{}, After: &h.Back.Max}}
	}
	tl.Held = []model.Held{h}
	return tl
}

func TestHeldConnectionsAreCompared(t *testing.T) {
	back := func(longest time.Duration) *model.Length { return &model.Length{Min: time.Millisecond, Max: longest} }
	cut := heldRun(model.Held{Cut: 40, Unwarned: 38, Cuts: 40, Back: back(time.Second)})
	for _, test := range []struct {
		about string
		a, b  *model.Timeline
		want  string
	}{
		{"the same", cut, cut, "held.cut unclear, held.unwarned unclear, held.back.max unclear"},
		{"nothing is cut any more", cut, heldRun(model.Held{}),
			"held.cut less, held.unwarned less, held.back.max less"},
		{"all cuts are announced now", cut, heldRun(model.Held{Cut: 40, Cuts: 40, Back: back(time.Second)}),
			"held.cut unclear, held.unwarned less, held.back.max unclear"},
		{"more are cut, and are back later", cut,
			heldRun(model.Held{Cut: 70, Unwarned: 38, Cuts: 70, Back: back(3 * time.Second)}),
			"held.cut more, held.unwarned unclear, held.back.max more"},
		{"as many more are cut as by chance", cut,
			heldRun(model.Held{Cut: 41, Unwarned: 39, Cuts: 41, Back: back(time.Second)}),
			"held.cut unclear, held.unwarned unclear, held.back.max unclear"},
		{"some may have been cut by a stop of the prober", cut,
			heldRun(model.Held{Cut: 30, Unwarned: 30, Cuts: 45, Stopped: 15, Back: back(time.Second)}),
			"held.cut unclear, held.unwarned unclear, held.back.max unclear"},
		{"what became of them is not all on record", cut,
			heldRun(model.Held{Cut: 30, Unwarned: 30, Cuts: 30, Open: true, Back: back(time.Millisecond)}),
			"held.cut unclear, held.unwarned unclear, held.back.max unclear"},
		{"one did not come back", cut,
			heldRun(model.Held{Cut: 40, Unwarned: 38, Cuts: 40, Missing: 1, Back: back(time.Millisecond)}),
			"held.cut unclear, held.unwarned unclear, held.back.max unclear"},
		{"one of them held none", cut, runOf(6000, 0), ""},
	} {
		if got := directions(Compare(test.a, test.b)); strings.TrimPrefix(strings.TrimPrefix(got,
			"failed unclear, downtime.total unclear, window.longest unclear"), ", ") != test.want {
			t.Errorf("%s: %s, want %s", test.about, got, test.want)
		}
	}
}

// The bounds are those of a share of failed requests, and the upper one also holds what may have been cut.
func TestSharesOfHeldConnectionsCountThoseThatStood(t *testing.T) {
	a := heldRun(model.Held{Cut: 10, Cuts: 10})
	a.Held[0].Stood = 20
	b := heldRun(model.Held{Cut: 6, Cuts: 8, Stopped: 2, Unproven: 2})
	c := heldChanges(a, b)[0]
	lowA, highA := windows.ShareInterval(10, 20)
	lowB, _ := windows.ShareInterval(6, 100)
	_, highB := windows.ShareInterval(10, 100)
	want := Change{Target: "web held", Metric: DiffCut, A: &Estimate{lowA, &highA, 10, 20},
		B: &Estimate{lowB, &highB, 6, 100}, Direction: Less}
	if diff := gocmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Held[0].Open = true // any of them may have been cut
	if c := heldChanges(a, b)[0]; *c.B.Max != 1 || c.B.Min != lowB {
		t.Errorf("%+v", c.B)
	}
}

// What one of the runs did not hold cannot be said to have become no worse.
func TestHeldConnectionsOfOneRunAloneAreNotMeasuredInBoth(t *testing.T) {
	cut, none := heldRun(model.Held{Cut: 40, Unwarned: 38, Cuts: 40}), runOf(6000, 0)
	both := heldRun(model.Held{Cut: 40, Unwarned: 38, Cuts: 40})
	both.Held = append(both.Held, model.Held{Target: "api held", Connections: 2, Stood: 2})
	for _, test := range []struct {
		about, groups string
		a, b          *model.Timeline
		want          []string
	}{
		{"B held none", "cuts", cut, none, []string{"held connections cut of web held: not measured in both"}},
		{"A held none", "back", none, cut, []string{"longest until back of web held: not measured in both"}},
		{"B held those of another Service, too", "unwarned", cut, both,
			[]string{"cut without a warning of api held: not measured in both"}},
		{"neither held any", "cuts", none, none, []string{"held connections cut: not measured in both"}},
		{"it is not asked for", "failures,downtime", cut, none, nil},
		{"both held the same", "cuts,unwarned,back", cut, cut, nil},
	} {
		groups, _ := ParseGroups(test.groups)
		if worse, unknown := Compare(test.a, test.b).Worse(groups); len(worse) > 0 || !slices.Equal(unknown, test.want) {
			t.Errorf("%s: worse %q, unknown %q, want %q", test.about, worse, unknown, test.want)
		}
	}
}

// When the prober tries again is spread at random: a connection may have been possible for as long as it waited.
func TestTheWaitBeforeAnAttemptIsNoLongerOutage(t *testing.T) {
	const ms = time.Millisecond
	run := func(list ...model.HeldCut) *model.Timeline {
		h := model.Held{Cut: len(list), Cuts: len(list), List: list}
		for _, c := range list {
			switch {
			case c.Stopped:
			case c.After == nil:
				h.Missing++
			default:
				h.Back = model.Longer(h.Back, model.Length{Min: *c.After, Max: *c.After})
			}
		}
		return heldRun(h)
	}
	back := func(after, waited time.Duration) model.HeldCut {
		return model.HeldCut{After: &after, Back: &model.Instant{}, Waited: waited}
	}
	missing := func(cut, waited time.Duration) model.HeldCut {
		return model.HeldCut{Cut: model.Instant{Latest: cut}, Waited: waited}
	}
	stopped := back(9000*ms, 0)
	stopped.Stopped = true
	for _, test := range []struct {
		about string
		a, b  *model.Timeline
		want  Direction
	}{
		{"another spread", run(back(1034*ms, 320*ms)), run(back(1234*ms, 520*ms)), Unclear},
		{"longer by more than the wait", run(back(1034*ms, 320*ms)), run(back(2034*ms, 520*ms)), More},
		{"the longest is of another connection", run(back(1034*ms, 0), back(2034*ms, 1020*ms)), run(back(1020*ms, 0)),
			Less},
		{"at once, and after long", run(back(3*ms, 0)), run(back(5000*ms, 0)), More},
		{"not back for long", run(back(1034*ms, 320*ms)), run(missing(50*time.Second, 800*ms)), More},
		{"not back, and cut shortly before the end", run(back(1034*ms, 0)), run(missing(58*time.Second, 1500*ms)),
			Unclear},
		{"after a stop of the prober", run(back(1034*ms, 0)), run(back(1034*ms, 0), stopped), Unclear},
	} {
		for _, r := range []*model.Timeline{test.a, test.b} {
			r.Targets = append(r.Targets, model.Target{Target: timeline.Target{Name: "web held", Kind: timeline.Held},
				Measured: model.Instant{Latest: time.Minute}})
		}
		if c := heldChanges(test.a, test.b)[2]; c.Direction != test.want {
			t.Errorf("%s: %s, want %s: %+v, %+v", test.about, c.Direction, test.want, c.A, c.B)
		}
	}
}
