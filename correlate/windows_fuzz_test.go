package correlate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// readFlights turns a fuzzer's bytes into requests in the order they were sent: three bytes each say how long after the
// one before it was sent, how long it took, and how it ended.
func readFlights(data []byte, classes ...timeline.Class) []timeline.Request {
	var requests []timeline.Request
	at := time.Duration(0)
	for i := 0; i+2 < len(data) && len(requests) < 600; i += 3 {
		after, took, how := time.Duration(data[i]), time.Duration(data[i+1]), int(data[i+2])
		at += after * after * time.Millisecond / 200 // up to 325 ms, most below 20
		class := timeline.OK
		if how < 128 {
			class = classes[how%len(classes)]
		}
		r := timeline.Request{Target: 1, Seq: uint64(i / 3), Due: at, Sent: at,
			Done: at + (took*took*took/1000+1)*10*time.Microsecond}
		r.Class, r.Backend = class, uint16(how%3)
		requests = append(requests, r)
	}
	return requests
}

// A naive finder states the rules of windows one by one over all requests, without a care for time or memory.
type naive struct {
	requests   []timeline.Request // of classes ok and failed
	join       time.Duration
	unobserved []windows.Period
	begin      time.Duration
}

func newNaive(requests []timeline.Request, join, limit time.Duration) *naive {
	n := &naive{requests: requests, join: join, begin: requests[0].Due}
	done := requests[0].Due
	for i, r := range requests {
		if from := max(done, requests[max(0, i-1)].Sent); r.Sent-from > limit {
			n.unobserved = append(n.unobserved, windows.Period{From: from, To: r.Sent})
		}
		done = max(done, r.Done)
	}
	return n
}

// parted reports whether a success or unobserved time lies wholly between two instants.
func (n *naive) parted(from, to time.Duration) bool {
	return slices.ContainsFunc(n.requests, func(r timeline.Request) bool {
		return r.Class == timeline.OK && r.Sent >= from && r.Done <= to
	}) ||
		slices.ContainsFunc(n.unobserved, func(d windows.Period) bool { return d.From >= from && d.To <= to })
}

// groups splits failures into windows, and these into runs.
func (n *naive) groups() (windows [][][]timeline.Request) {
	known := time.Duration(0) // the latest of the last run
	for _, f := range n.requests {
		if f.Class == timeline.OK {
			continue
		}
		last := len(windows) - 1
		switch {
		case last < 0 || n.parted(known, f.Sent) && f.Sent-known >= n.join:
			windows = append(windows, [][]timeline.Request{{f}})
		case n.parted(known, f.Sent):
			windows[last] = append(windows[last], []timeline.Request{f})
		default:
			run := &windows[last][len(windows[last])-1]
			*run = append(*run, f)
		}
		known = max(known, f.Done)
	}
	return windows
}

// bounds are min Sent, max Sent, min Known and max Known.
func bounds(failures []timeline.Request) (minSent, maxSent, minKnown, maxKnown time.Duration) {
	by := func(of func(timeline.Request) time.Duration) func(a, b timeline.Request) int {
		return func(a, b timeline.Request) int { return cmp.Compare(of(a), of(b)) }
	}
	sent := by(func(r timeline.Request) time.Duration { return r.Sent })
	done := by(func(r timeline.Request) time.Duration { return r.Done })
	return slices.MinFunc(failures, sent).Sent, slices.MaxFunc(failures, sent).Sent,
		slices.MinFunc(failures, done).Done, slices.MaxFunc(failures, done).Done
}

// A naiveWindow is what can be compared with a [model.Window].
type naiveWindow struct {
	Start, End   model.Instant
	Open         model.Open
	Failed, Sent int
}

func (n *naive) windows() []naiveWindow {
	var ws []naiveWindow
	groups := n.groups()
	for i, runs := range groups {
		failures := slices.Concat(runs...)
		minSent, maxSent, minKnown, maxKnown := bounds(failures)
		answer := n.answer(groups[:i], failures[0])
		inside := n.inside(failures, answer)
		spared := n.spared(failures)
		inside += spared
		startProofs, endProofs := 1, 1
		if inside > 0 || mostInARow(failures) < windows.FewFailures {
			for _, edge := range append([]int{len(failures)}, windows.BoundaryFailures[:]...) {
				if edge <= len(failures) {
					startProofs = max(startProofs, n.proofsNeeded(failures[:edge]))
					endProofs = max(endProofs, n.proofsNeeded(failures[len(failures)-edge:]))
				}
			}
		}
		w := naiveWindow{Failed: len(failures), Sent: len(failures) + inside}
		w.Start, w.End = model.Instant{Earliest: n.begin, Latest: minKnown},
			model.Instant{Earliest: maxSent, Latest: model.Never}

		floor := time.Duration(-1)
		if i > 0 {
			_, floor, _, _ = bounds(slices.Concat(groups[i-1]...))
		}
		besideStart, besideEnd := 0, 0 // successes within the brackets
		var before []time.Duration
		for _, r := range n.requests {
			if r.Class == timeline.OK && r.Sent >= floor &&
				(r.Done <= minSent || spared > 0 && r.Seq < failures[0].Seq) {
				before = append(before, r.Sent)
			}
		}
		switch {
		case len(before) >= startProofs:
			besideStart = startProofs - 1
			w.Start.Earliest = max(before[len(before)-startProofs], floor)
		case floor >= 0:
			w.Start.Earliest = floor
		default:
			w.Open.Start = true
		}

		next, nextSeq := model.Never, uint64(math.MaxUint64)
		if i+1 < len(groups) {
			next, nextSeq = groups[i+1][0][0].Sent, groups[i+1][0][0].Seq
			_, _, w.End.Latest, _ = bounds(slices.Concat(groups[i+1]...))
		}
		var after []time.Duration
		for _, r := range n.requests {
			if r.Class == timeline.OK && r.Sent >= maxKnown && r.Seq < nextSeq {
				after = append(after, r.Done)
			}
		}
		slices.Sort(after)
		var sents []time.Duration
		// over for what arrives as soon as so many were sent, for what is in flight as soon as so many were done
		if spared > 0 {
			after = nil
			for _, r := range n.requests {
				if r.Class == timeline.OK && r.Done >= maxKnown && r.Seq > failures[0].Seq && r.Seq < nextSeq {
					after = append(after, r.Done)
				}
				if r.Class == timeline.OK && r.Sent >= maxKnown && r.Seq < nextSeq {
					sents = append(sents, r.Sent+windows.MaxReorder)
				}
			}
			slices.Sort(after)
		}
		if len(after) >= endProofs && (spared == 0 || len(sents) >= endProofs) {
			latest := after[endProofs-1]
			if spared > 0 {
				latest = max(latest, sents[endProofs-1])
			}
			if latest <= w.End.Latest {
				w.End.Latest, besideEnd = latest, endProofs-1
			}
		} else if next == model.Never {
			w.Open.End = true
			w.End.Latest = max(n.requests[len(n.requests)-1].Sent+1, maxKnown, slices.Max(append(after, 0)))
		}
		wasOpen := w.Open
		n.clamp(&w, minSent, maxKnown)
		if inside == 0 && len(failures) < 3 {
			if w.Open.Start == wasOpen.Start {
				w.Sent += besideStart
			}
			if w.Open.End == wasOpen.End {
				w.Sent += besideEnd
			}
		}
		ws = append(ws, w)
	}
	return ws
}

// mostInARow is how many failures were sent one after the other at most, without a success between them.
func mostInARow(failures []timeline.Request) (most int) {
	row := 0
	for i, f := range failures {
		if i > 0 && f.Seq != failures[i-1].Seq+1 {
			row = 0
		}
		row++
		most = max(most, row)
	}
	return most
}

func (n *naive) proofsNeeded(failures []timeline.Request) int {
	succeeded := 0
	for _, r := range n.requests[failures[0].Seq:failures[len(failures)-1].Seq] {
		if r.Class == timeline.OK {
			succeeded++
		}
	}
	return windows.ConfirmationsNeeded(len(failures), succeeded)
}

// spared counts the successes in flight when all failures became known at once.
func (n *naive) spared(failures []timeline.Request) (spared int) {
	minSent, _, minKnown, lastDone := bounds(failures)
	refused := slices.ContainsFunc(failures, func(f timeline.Request) bool { return f.Class != timeline.HTTP5xx })
	if len(failures) < 3 || refused || 2*(lastDone-minKnown) >= time.Duration(len(failures)-2)*10*time.Millisecond {
		return 0
	}
	for _, r := range n.requests {
		if r.Class == timeline.OK && r.Sent > minSent+windows.MaxReorder && r.Sent+windows.MaxReorder < minKnown &&
			r.Done > lastDone+windows.MaxReorder {
			spared++
		}
	}
	return spared
}

// inside counts the successes inside failures.
func (n *naive) inside(failures []timeline.Request, answer time.Duration) (inside int) {
	minSent, maxSent, minKnown, _ := bounds(failures)
	firstArrival, lastArrival, lastDone := model.Never, time.Duration(0), maxSent
	for _, f := range failures {
		if !f.Class.Timeout() {
			lastDone = max(lastDone, f.Done)
		}
		if windows.Unconnected(f.Class) {
			firstArrival, lastArrival = min(firstArrival, windows.Arrival(f.Class, f.Sent, f.Done)), f.Sent
		}
	}
	for _, r := range n.requests {
		usual := func(f timeline.Request) bool { return r.Sent <= f.Sent-(f.Done-f.Sent) && r.Done-r.Sent <= answer }
		after := r.Sent >= minKnown && (r.Done <= maxSent || answer != model.Never &&
			slices.ContainsFunc(failures, usual))
		among := r.Sent > minSent+windows.MaxReorder && r.Sent < maxSent-windows.MaxReorder &&
			r.Done > minKnown+windows.MaxReorder && r.Done+windows.MaxReorder < lastDone
		arrived := r.Sent > firstArrival && r.Sent+windows.MaxReorder < lastArrival
		if r.Class == timeline.OK && (after || among || arrived) {
			inside++
		}
	}
	return inside
}

// answer is by when an answer would have come to a request: it rests on the successes before it and outside earlier
// windows.
func (n *naive) answer(earlier [][][]timeline.Request, to timeline.Request) time.Duration {
	h := windows.LatencyProfile{}
	next := 0
	for _, runs := range append(slices.Clone(earlier), [][]timeline.Request{{to}}) {
		_, _, _, maxKnown := bounds(slices.Concat(runs...))
		for _, r := range n.requests[next:runs[0][0].Seq] {
			if r.Class == timeline.OK {
				h.Add(&windows.Sample{Sent: r.Sent, Done: r.Done}, 30*time.Millisecond)
			}
		}
		closed := func(r timeline.Request) bool { return r.Sent-maxKnown >= n.join && n.parted(maxKnown, r.Sent) }
		next = slices.IndexFunc(n.requests, closed)
	}
	return h.Answer()
}

func (n *naive) clamp(w *naiveWindow, minSent, maxKnown time.Duration) {
	for _, d := range n.unobserved {
		if d.To > w.Start.Earliest && d.From < minSent {
			w.Start.Earliest, w.Open.Start = min(d.To, minSent), true
		}
	}
	for _, d := range slices.Backward(n.unobserved) {
		if d.To > maxKnown && d.From < w.End.Latest {
			w.End.Latest, w.Open.End = max(d.From, maxKnown), true
		}
	}
}

// fuzzRun is the run of one target at 100/s whose requests are r.
func fuzzRun(requests []timeline.Request, resolution time.Duration) timeline.Run {
	last := requests[len(requests)-1].Sent
	return timeline.Run{
		Meta: timeline.Meta{Options: timeline.Options{Join: 100 * time.Millisecond, Slow: 50 * time.Millisecond,
			Timeout: 80 * time.Millisecond, Resolution: resolution}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, Rate: 100, Timeout: 80 * time.Millisecond}},
		Events:  []timeline.Event{{Seen: last + 1, Kind: timeline.RunPhase, To: "ended"}},
		Batches: func(yield func(timeline.Batch, error) bool) {
			yield(timeline.Batch{Requests: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: last + 1}}}, nil)
		},
	}
}

// checkWindows checks what must hold for the windows of any run.
func checkWindows(t *testing.T, tl *model.Timeline) {
	t.Helper()
	type key struct {
		target string
		slow   bool
	}
	before, failed := map[key]model.Window{}, map[string]int{}
	for i, w := range tl.Windows {
		k := key{w.Target, w.Kind == model.Slow}
		failed[w.Target] += w.Failed
		switch previous, met := before[k]; {
		case w.ID != i+1:
			t.Errorf("window %d has ID %d", i+1, w.ID)
		case w.Start.Earliest > w.Start.Latest || w.End.Earliest > w.End.Latest || w.Start.Earliest > w.End.Latest:
			t.Errorf("brackets of %+v are not ordered", w)
		case w.Length.Min > w.Length.Max || w.Length.Min < 0 || w.Downtime.Min > w.Downtime.Max ||
			w.Downtime.Min < 0 || w.Downtime.Max > w.Length.Max:
			t.Errorf("lengths of %+v are not ordered", w)
		case w.Blackout != nil && (w.Blackout.Min > w.Blackout.Max || w.Blackout.Min > w.Length.Min ||
			w.Blackout.Max > w.Length.Max):
			t.Errorf("blackout %+v of %+v does not lie in it", *w.Blackout, w)
		case w.Share <= 0 || w.Share > 1 || w.Sent < w.Failed+w.Slow:
			t.Errorf("share of %+v", w)
		case met && (previous.End.Earliest > w.Start.Earliest || previous.End.Latest > w.Start.Latest):
			t.Errorf("windows are not disjoint and in order: %+v, %+v", previous, w)
		case len(w.Causes) == 0:
			t.Errorf("no cause for %+v", w)
		}
		before[k] = w
	}
	for _, target := range tl.Targets {
		if target.Kind.Judged() && failed[target.Name] != target.Failed {
			t.Errorf("windows of %s hold %d failures, %d requests failed", target.Name, failed[target.Name],
				target.Failed)
		}
		if target.Coverage < 0 || target.Coverage > 1 {
			t.Errorf("coverage %v of %s", target.Coverage, target.Name)
		}
	}
	for _, f := range tl.Failures {
		holds := func(w model.Window) bool {
			return w.Target == f.Target && w.Kind != model.Slow && w.Start.Earliest <= f.Sent &&
				f.Sent <= max(w.End.Latest, w.Start.Latest)
		}
		if !slices.ContainsFunc(tl.Windows, holds) {
			t.Errorf("no window holds the failure sent at %v", f.Sent)
		}
	}
}

func addSeeds(f *testing.F) {
	f.Add([]byte("\x10\x05\xff\x10\x05\xff\x10\x05\x01\x10\x05\x02\x10\x05\x01\x10\x05\xff"))
	for seed := range byte(40) {
		var data []byte
		state := uint32(seed)*2654435761 + 1
		for range 600 >> (seed % 5) { // the fuzzer gets further with short ones
			state = state*1664525 + 1013904223
			data = append(data, byte(state>>24)>>(seed%4), byte(state>>16)>>(seed%3), byte(state>>8)|(seed<<4))
		}
		f.Add(data)
	}
}

// Half of what is in flight is cut now and then: windows follow the rules stated one by one.
func TestWindowsOfRequestsCutInFlightFollowTheRules(t *testing.T) {
	t.Parallel()
	cuts := 0
	for seed := range uint64(seeds(1000)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 3*(50+rng.IntN(500)))
		for i := range data {
			switch i % 3 {
			case 0:
				data[i] = byte(rng.IntN(60))
			case 1:
				data[i] = byte(rng.IntN(int([]int{20, 120, 250}[seed%3])))
			default:
				data[i] = 255
				if rng.IntN(1+int(seed%40)) == 0 {
					data[i] = byte(rng.IntN(256))
				}
			}
		}
		requests := readFlights(data, timeline.HTTP5xx)
		at := time.Duration(0)
		for range 3 { // cut half of what is in flight
			at += time.Duration(rng.Int64N(int64(2 * time.Second)))
			for i := range requests {
				if r := &requests[i]; r.Sent < at && r.Done > at && rng.IntN(2) == 0 {
					r.Class, r.Done = timeline.HTTP5xx, at+time.Duration(rng.IntN(3))*time.Millisecond/4
				}
			}
		}
		compareWithRules(t, requests, 10*time.Millisecond, 30*time.Millisecond)
		if t.Failed() {
			t.Fatal(seed)
		}
		for _, w := range analyze(t, fuzzRun(requests, 30*time.Millisecond)).Windows {
			if w.Cut != nil {
				cuts++
			}
		}
	}
	if cuts < 10 {
		t.Errorf("requests were cut in flight in %d windows only", cuts)
	}
}

// FuzzWindows holds the windows against the rules stated one by one.
func FuzzWindows(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		requests := readFlights(data, timeline.Refused, timeline.HTTP5xx)
		if len(requests) == 0 {
			return
		}
		for asked, limit := range map[time.Duration]time.Duration{10 * ms: 30 * ms, 50 * ms: 50 * ms,
			200 * ms: 200 * ms} {
			compareWithRules(t, requests, asked, limit)
		}
	})
}

// compareWithRules judges requests at a resolution, by which gaps up to the limit are no holes.
func compareWithRules(t *testing.T, requests []timeline.Request, resolution, limit time.Duration) {
	t.Helper()
	tl := analyze(t, fuzzRun(requests, resolution))
	checkWindows(t, tl)
	var got []naiveWindow
	for _, w := range tl.Windows {
		if w.Kind != model.Slow {
			got = append(got, naiveWindow{Start: w.Start, End: w.End, Open: w.Open, Failed: w.Failed, Sent: w.Sent})
		}
	}
	want := newNaive(requests, 100*time.Millisecond, limit).windows()
	if diff := gocmp.Diff(want, got); diff != "" {
		for _, r := range requests {
			t.Log(fmt.Sprint(r.Sent, r.Done, r.Class))
		}
		t.Errorf("--resolution %v: windows differ from the rules (-rules +got):\n%s", resolution, diff)
	}
}
