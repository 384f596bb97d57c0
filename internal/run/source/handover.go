package source

import (
	"slices"
	"time"

	"lapse/internal/run/facts"
	"lapse/timeline"
)

const (
	// refresh is the time between two deliveries of what was measured.
	refresh = 250 * time.Millisecond
	// seldom is the time between two deliveries that [Seldom] allows.
	seldom = time.Second
	// often is the rate of a source, in requests per second, from which on its facts do not wait.
	often = 20
)

// A Hand function takes what was measured since its last call.
type Hand func(measured []timeline.Fact, last bool) error

// A Wait function reports whether what was measured since the last delivery can wait for the next one.
type Wait func(measured []timeline.Fact, since time.Duration) bool

// Always hands over each 250 ms.
func Always([]timeline.Fact, time.Duration) bool { return false }

// Seldom lets successful requests wait for a second, unless one of the sources has sent 20 or more per second. For few
// requests a delivery costs more than they do.
func Seldom(measured []timeline.Fact, since time.Duration) bool {
	if since >= seldom {
		return false
	}
	enough := often * (since + refresh).Seconds() // requests come in batches: some of the next interval can be there
	sent := map[timeline.SourceID]int{}
	for _, fact := range measured {
		batch, ok := fact.(timeline.Batch)
		if !ok || slices.ContainsFunc(batch.Requests, notOK) {
			return false
		}
		if sent[batch.Source] += len(batch.Requests); float64(sent[batch.Source]) >= enough {
			return false
		}
	}
	return true
}

func notOK(r timeline.Request) bool { return r.Class != timeline.OK }

// HandOver hands over what is put into a queue, each 250 ms or later if it can wait, until over is closed and all was
// handed over. An error of hand ends it, and is returned.
func HandOver(over <-chan struct{}, from *facts.Queue, wait Wait, hand Hand) error {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var measured []timeline.Fact
	var since time.Duration
	for last := false; !last; {
		select {
		case <-tick.C:
			since += refresh
		case <-over:
			last = true
		}
		measured = append(measured, from.Take()...)
		if !last && wait(measured, since) {
			continue
		}
		if err := hand(measured, last); err != nil {
			return err
		}
		measured, since = nil, 0
	}
	return nil
}

// Merged returns facts with the batches of each source as one, in place of the last of them: what refers to what came
// before still does. Batches that others are missing between stay apart.
func Merged(measured []timeline.Fact) []timeline.Fact {
	next := map[timeline.SourceID]*timeline.Batch{} // the batch of a source that is merged with those before
	merged := make([]timeline.Fact, 0, len(measured))
	for _, fact := range slices.Backward(measured) {
		b, ok := fact.(timeline.Batch)
		into := next[b.Source]
		if !ok || into == nil || b.FirstSeq+uint64(len(b.Requests)) != into.FirstSeq {
			if ok {
				next[b.Source] = &b
				merged = append(merged, &b)
			} else {
				merged = append(merged, fact)
			}
			continue
		}
		into.FirstSeq, into.Requests = b.FirstSeq, slices.Concat(b.Requests, into.Requests)
		for _, w := range b.Watermarks {
			same := func(later timeline.Watermark) bool { return later.Target == w.Target }
			if !slices.ContainsFunc(into.Watermarks, same) {
				into.Watermarks = append(into.Watermarks, w)
			}
		}
	}
	slices.Reverse(merged)
	for i, fact := range merged {
		if b, ok := fact.(*timeline.Batch); ok {
			merged[i] = *b
		}
	}
	return merged
}

// mostHeld is how long a [Thinner] holds back how far a source has got.
const mostHeld = 4 * time.Second

// A Thinner makes deliveries smaller that tell of many sources with few requests. Each source's batches are one, and
// one without requests waits for the next delivery with some, at most [mostHeld].
type Thinner struct {
	held []timeline.Fact
	told map[timeline.SourceID]time.Duration // when a batch of a source was delivered last
}

// Thin returns what is delivered now. Batches wait only of sources that go on.
func (t *Thinner) Thin(
	measured []timeline.Fact, now time.Duration, goesOn func(timeline.SourceID) bool,
) (tell []timeline.Fact) {
	if t.told == nil {
		t.told = map[timeline.SourceID]time.Duration{}
	}
	merged := Merged(slices.Concat(t.held, measured))
	t.held = nil
	for _, fact := range merged {
		if b, ok := fact.(timeline.Batch); ok {
			if len(b.Requests) == 0 && now-t.told[b.Source] < mostHeld && goesOn(b.Source) {
				t.held = append(t.held, fact)
				continue
			}
			t.told[b.Source] = now
		}
		tell = append(tell, fact)
	}
	return tell
}
