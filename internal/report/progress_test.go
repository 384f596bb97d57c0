package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// drain is the race sample as it looks at instant now, while it goes on.
func drain(now time.Duration) *model.Timeline {
	tl := race()
	ended := now >= tl.Run.Duration
	tl.Run.Live = !ended
	tl.Events = until(tl.Events, func(e model.Event) bool { return e.Seen <= now })
	tl.Services = cluster.Services(tl.Events)
	for i := range tl.Pods {
		tl.Pods[i].States = until(tl.Pods[i].States, func(s model.PodState) bool { return s.Start <= now })
	}
	for i := range tl.Targets {
		tl.Targets[i].Sent = int(tl.Targets[i].Rate * now.Seconds())
		tl.Targets[i].Failed = 0
	}
	w := &tl.Windows[0]
	switch {
	case now < w.Start.Latest:
		tl.Windows = nil
		return tl
	case now < w.End.Latest:
		w.Live, w.Open.End, w.Causes = true, true, nil
		w.End, w.Length.Min = model.Instant{Earliest: now, Latest: now}, now-w.Start.Latest
	case now < w.End.Latest+2*s:
		w.Live = true
	}
	tl.Targets[0].Failed = 64
	return tl
}

func until[T any](list []T, is func(T) bool) []T {
	var kept []T
	for _, v := range list {
		if is(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// watch lets a Progress see the whole drain, and the command's output.
func watch(p *Progress) {
	for now := time.Duration(0); now <= 80*s; now += 100 * ms {
		p.Update(said(drain(now)), now)
		if now == 18*s+300*ms {
			p.Log("evicting pod shop/web-5c9d7f-x2kzq \x1b[31m")
		}
	}
	p.Done()
}

func TestProgressWithoutATerminalIsALineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	watch(NewProgress(&out, ProgressOptions{Unicode: true}))
	golden(t, "progress.txt", out.Bytes())
}

func TestProgressOnATerminalRedrawsABlock(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{Terminal: true, Color: true, Unicode: true, Width: 80, Total: 80 * s})
	for _, now := range []time.Duration{0, 5 * s, 10*s + 100*ms, 18*s + 350*ms, 19 * s, 21 * s} {
		p.Update(said(drain(now)), now)
	}
	p.Log("node/node-b drained")
	p.Update(said(drain(80*s)), 80*s)
	p.Done()
	golden(t, "progress.ansi.txt", bytes.ReplaceAll(out.Bytes(), []byte("\x1b"), []byte("␛")))
}

func TestProgressLeavesTheTerminalClean(t *testing.T) {
	var block, lines bytes.Buffer
	watch(NewProgress(&block, ProgressOptions{Terminal: true, Unicode: true, Width: 60}))
	watch(NewProgress(&lines, ProgressOptions{Unicode: true}))
	want := regexp.MustCompile(`(?m)^.* sent \d+, .*\n`).ReplaceAllString(lines.String(), "") // the block says that instead
	if got := screen(t, block.String()); got != want {
		t.Errorf("on the terminal remains\n%s\nwant\n%s", got, want)
	}
}

func TestProgressTellsTheEndEvenIfItComesRightAfterARedraw(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{})
	p.Update(drain(80*s-ms), 80*s+ms)
	p.Update(drain(80*s), 80*s+2*ms)
	p.Done()
	p.Done()
	if n := strings.Count(out.String(), "80.0 s  ended"); n != 1 {
		t.Errorf("the end is shown %d times:\n%s", n, out.String())
	}
}

func TestProgressRedrawsAtMostFourTimesASecond(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{Terminal: true})
	for now := time.Duration(0); now < s; now += 10 * ms {
		p.Update(said(drain(now)), now)
	}
	if n := strings.Count(out.String(), "baseline  "); n != 4 {
		t.Errorf("%d blocks in a second, want 4", n)
	}
}

func TestProgressTellsOfAWindowOnceThoughItMovesAndMerges(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{})
	window := func(id int, from, to time.Duration, live bool) model.Window {
		return model.Window{ID: id, Target: "web new", Kind: model.Outage, Live: live, Classes: map[string]int{"refused": 3},
			Start: model.Instant{Earliest: from - ms, Latest: from}, End: model.Instant{Earliest: to, Latest: to + ms}}
	}
	for i, windows := range [][]model.Window{
		{window(1, 5*s, 6*s, true)},
		{window(1, 5*s, 6*s, true), window(2, 8*s, 9*s, true)},
		{window(1, 5*s-2*ms, 9*s, true)}, // a late reply joined them
		{window(1, 5*s-2*ms, 9*s, false)},
		{window(1, 5*s-2*ms, 9*s, false)},
	} {
		now := time.Duration(i+1) * s
		p.Update(&model.Timeline{Windows: windows}, now)
	}
	if got := fmt.Sprint(strings.Count(out.String(), "failing since"), strings.Count(out.String(), "well again")); got != "2 1" {
		t.Errorf("opened and closed %s times:\n%s", got, out.String())
	}
}

func TestProgressWarnsOfAProberThatIsNotWell(t *testing.T) {
	tl := drain(5 * s)
	tl.Targets[0].Late = tl.Targets[0].Sent / 10
	tl.Targets[1].Coverage = 0.9
	for i := range tl.Targets {
		if tl.Targets[i].Kind == timeline.Control {
			tl.Targets[i].Failed = 2
		}
	}
	var out bytes.Buffer
	NewProgress(&out, ProgressOptions{Terminal: true}).Update(tl, 5*s)
	if want := " prober stalled: web new late 10 %, web reused coverage 90 % | control failed 2\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s\nwant a last line %q", out.String(), want)
	}
}

// A command's start is known here long before it comes home from the cluster.
func TestProgressTellsOfTheCommandAtOnceAndOnce(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{})
	p.Tell(timeline.Event{Seen: 9 * s, Kind: timeline.RunPhase, To: "measuring"}) // with which it begins
	p.Tell(timeline.Event{Seen: 10 * s, Kind: timeline.Command, To: "running", Detail: "kubectl drain node2"})
	p.Tell(timeline.Event{Seen: 11 * s, Kind: timeline.CommandOutput, Detail: "node/node2 cordoned"}) // it was passed on already
	if want := "    9.0 s  measuring\n   10.0 s  command running: kubectl drain node2\n"; out.String() != want {
		t.Fatalf("%q, want %q", out.String(), want)
	}
	p.Update(&model.Timeline{Events: events(
		timeline.Event{Seen: 9 * s, Kind: timeline.RunPhase, To: "measuring"},
		timeline.Event{Seen: 10 * s, Kind: timeline.Command, To: "running", Detail: "kubectl drain node2"},
		timeline.Event{Seen: 12 * s, Kind: timeline.Command, From: "running", To: "exited", ExitCode: new(1)},
	)}, 25*s)
	p.Done()
	if n := strings.Count(out.String(), "command running") * strings.Count(out.String(), "s  measuring\n"); n != 1 || !strings.Contains(out.String(), "12.0 s  command exited with code 1") {
		t.Errorf("told %d times:\n%s", n, out.String())
	}
}

// Instants of lines never fall: a command's end that comes in after a window was told of says when it was (D21).
func TestProgressTellsOfALateEventWithItsInstant(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{})
	w := model.Window{Target: "new", Kind: model.Outage, Classes: map[string]int{"refused": 3}, Start: model.Instant{Latest: 5 * s}, End: model.Instant{Earliest: 6 * s, Latest: 6 * s}}
	exited := timeline.Event{Seen: 8*s + 340*ms, Kind: timeline.Command, To: "exited", ExitCode: new(0)}
	p.Update(&model.Timeline{Windows: []model.Window{w}}, 8*s+400*ms)
	p.Update(&model.Timeline{Windows: []model.Window{w}, Events: events(exited)}, 8*s+650*ms)
	p.Tell(timeline.Event{Seen: 8*s + 620*ms, Kind: timeline.RunPhase, To: "settling"})
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(lines[len(lines)-3:], "\n"); got != "    8.4 s  at 8.3 s: command exited with code 0\n    8.6 s  settling\n" {
		t.Errorf("%s", out.String())
	}
}

// screen is what a terminal shows after it obeyed the cursor movements that Progress uses.
func screen(t *testing.T, output string) string {
	t.Helper()
	lines := []string{""}
	up := regexp.MustCompile(`^\x1b\[(\d+)A\r\x1b\[J`)
	for output != "" {
		if m := up.FindStringSubmatch(output); m != nil {
			var n int
			fmt.Sscan(m[1], &n)
			lines = append(lines[:len(lines)-1-n], "")
			output = output[len(m[0]):]
			continue
		}
		line, rest, found := strings.Cut(output, "\n")
		if !found || strings.Contains(line, "\x1b") {
			t.Fatalf("unexpected output %q", line)
		}
		lines[len(lines)-1] = line
		lines = append(lines, "")
		output = rest
	}
	return strings.Join(lines, "\n")
}

// What is known to have ended when it is first told is told once (D21).
func TestConnectionsThatAreBackAlreadyAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	NewProgress(&out, ProgressOptions{}).Update(samples["held"](), 80*s)
	if strings.Count(out.String(), "40 of 100 connections") != 1 || !strings.Contains(out.String(), "back after") {
		t.Errorf("%s", out.String())
	}
}
