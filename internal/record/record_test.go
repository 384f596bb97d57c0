package record

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lapse/internal/hint"
	"lapse/timeline"
)

// ignoreBatches is for runs: their sequences are compared by what they yield.
var ignoreBatches = cmpopts.IgnoreFields(timeline.Run{}, "Batches")

var sameFacts = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}), cmpopts.EquateEmpty(), ignoreBatches}

// A fake measures what a loadgen would: requests at even steps, with the lengths of a real run.
type fake struct {
	rng *rand.Rand
	seq map[timeline.TargetID]uint64
	n   uint64
}

func newFake(seed uint64) *fake {
	return &fake{rng: rand.New(rand.NewPCG(seed, 1)), seq: map[timeline.TargetID]uint64{}}
}

// A spread is how a length was spread in a run on loopback at 2000 requests per second: microseconds
// at each of shares.
type spread []float64

var (
	shares = spread{0, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .99, .999, 1}

	reusedLate  = spread{4, 13, 14, 14, 14, 15, 15, 16, 18, 21, 25, 32, 39, 161, 1342, 3471}
	reusedFirst = spread{12, 22, 24, 26, 31, 42, 54, 62, 69, 74, 80, 90, 102, 310, 1221, 3700}
	reusedRest  = spread{8, 11, 15, 15, 16, 17, 18, 19, 20, 22, 25, 30, 33, 47, 85, 217}
	newLate     = spread{22, 34, 49, 52, 54, 56, 58, 61, 65, 70, 77, 92, 108, 360, 853, 2803}
	newConnect  = spread{27, 36, 40, 43, 46, 48, 50, 53, 56, 61, 68, 79, 89, 123, 334, 1150}
	newFirst    = spread{1, 16, 20, 23, 39, 50, 56, 59, 63, 68, 75, 91, 103, 134, 451, 1587}
	newRest     = spread{7, 9, 10, 11, 11, 12, 12, 13, 13, 14, 16, 25, 33, 44, 65, 202}
)

// draw returns a length spread like s, in whole microseconds.
func (f *fake) draw(s spread) time.Duration {
	at := f.rng.Float64()
	i := 1
	for shares[i] < at {
		i++
	}
	part := (at - shares[i-1]) / (shares[i] - shares[i-1])
	return time.Duration(math.Round(s[i-1]+part*(s[i]-s[i-1]))) * time.Microsecond
}

// batch returns n requests of target.
func (f *fake) batch(target timeline.TargetID, kind timeline.TargetKind, interval time.Duration, n int) timeline.Batch {
	b := timeline.Batch{Source: 1, FirstSeq: f.n}
	for range n {
		seq := f.seq[target]
		f.seq[target]++
		due := (time.Duration(seq)*interval + time.Duration(target)*37*time.Microsecond).Truncate(time.Microsecond)
		b.Requests = append(b.Requests, f.request(target, kind, seq, due))
	}
	f.n += uint64(n)
	b.Watermarks = []timeline.Watermark{{Target: target, Due: b.Requests[0].Due}}
	return b
}

// backend is drawn anew for each connection, of which reused requests use 50 in turn.
func (f *fake) backend(kind timeline.TargetKind, seq uint64) uint16 {
	if kind != timeline.New {
		return uint16(1 + seq%50*7%11%2)
	}
	return uint16(1 + f.rng.IntN(2))
}

func (f *fake) request(target timeline.TargetID, kind timeline.TargetKind, seq uint64, due time.Duration) timeline.Request {
	r := timeline.Request{Target: target, Seq: seq, Due: due}
	r.Code, r.Reused, r.Backend = 200, kind != timeline.New, f.backend(kind, seq)
	late, first, rest := reusedLate, reusedFirst, reusedRest
	if kind == timeline.New {
		late, first, rest = newLate, newFirst, newRest
		r.Connect = timeline.MicrosOf(f.draw(newConnect))
	}
	r.FirstByte, r.Peer = timeline.MicrosOf(f.draw(first)), 1
	r.Sent = due + f.draw(late)
	took := r.Connect.Duration() + r.FirstByte.Duration() + f.draw(rest)
	r.Done = r.Sent + took
	r.Delayed = f.rng.IntN(700) == 0
	if f.rng.IntN(500) == 0 {
		r.Outcome = timeline.Outcome{Class: timeline.Refused, Phases: timeline.Phases{Connect: timeline.MicrosOf(took)}}
	}
	return r
}

// someRun is a small run with facts of every kind.
func someRun(seed uint64) []timeline.Fact {
	f := newFake(seed)
	facts := []timeline.Fact{
		timeline.Meta{ID: "r1", Tool: "test", T0: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC), Options: timeline.Options{Rate: 500, Timeout: 800 * time.Millisecond}, URLs: []string{"http://web"}},
		timeline.Source{ID: 1, Name: "lapse-x", Role: timeline.Coordinator, Node: "node1", T0: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)},
		timeline.Sync{Source: 2, At: time.Second, Min: -time.Millisecond, Max: time.Millisecond},
		timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, Source: 1, Rate: 500},
		timeline.Target{ID: 2, Name: "web reused", Kind: timeline.Reused, Rate: 300},
		timeline.Target{ID: 700, Name: "web direct x", Kind: timeline.Direct, Addr: netip.MustParseAddrPort("10.0.0.7:80"), Rate: 1},
		timeline.Backend{Source: 1, ID: 1, Name: "web-1"},
		timeline.Peer{Source: 1, ID: 1, Addr: netip.MustParseAddrPort("10.96.0.7:80")},
	}
	for i := range 12 {
		facts = append(facts, f.batch(1, timeline.New, 2*time.Millisecond, 20), f.batch(2, timeline.Reused, time.Second/300, 30))
		mixed := f.batch(1, timeline.New, 2*time.Millisecond, 10)
		mixed.Requests = append(mixed.Requests, f.batch(700, timeline.Direct, time.Second, 5).Requests...)
		facts = append(facts, mixed, timeline.Batch{Source: 1, Watermarks: []timeline.Watermark{{Target: 1, Due: time.Second}, {Target: 2, Due: -time.Second}}},
			timeline.Event{ID: uint32(i), Seen: time.Duration(i) * time.Second, Stamp: time.Date(2026, 1, 2, 3, 4, 5+i, 0, time.UTC), Writer: "apiserver", Kind: timeline.PodDeleted,
				Object: timeline.Object{Kind: "Pod", Name: "web-1"}, Addr: netip.MustParseAddr("10.0.0.7"), Grace: new(30 * time.Second)},
			timeline.HeldBatch{Source: 1, FirstSeq: uint64(3 * i), Changes: []timeline.HeldChange{
				{Target: 3, Conn: uint32(i), Kind: timeline.HeldCut, Class: timeline.Reset, From: time.Duration(i) * time.Second, Answered: time.Duration(i)*time.Second + time.Millisecond, At: time.Duration(i+1) * time.Second, Warned: i%2 == 0, Stopped: i%3 == 0, Backend: 1, Peer: 1},
				{Target: 3, Conn: uint32(i), Kind: timeline.HeldFailed, Class: timeline.Refused, From: time.Duration(i+1) * time.Second, At: time.Duration(i+2) * time.Second, Peer: 1},
				{Target: 2, Conn: 0, Kind: timeline.HeldOpened, From: time.Duration(f.rng.Uint64N(1e6)) * time.Microsecond, At: time.Duration(i+3) * time.Second},
			}})
	}
	return facts
}

// create begins a recording in a new file.
func create(t testing.TB) (w *Writer, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.lapse")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

// decode returns the facts of a whole recording.
func decode(t testing.TB, path string) []timeline.Fact {
	t.Helper()
	facts, err := collect(Decode(bytes.NewReader(read(t, path))))
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// write records facts in a new file, a block per so many facts, and returns its path.
func write(t testing.TB, facts []timeline.Fact, perBlock int) string {
	t.Helper()
	w, path := create(t)
	for i, fact := range facts {
		if err := w.Append(fact); err != nil {
			t.Fatal(err)
		}
		if (i+1)%perBlock == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// collect gathers what a sequence yields until its error.
func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func checkSame(t testing.TB, got, want any) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // the quick way
	}
	if diff := cmp.Diff(want, got, sameFacts); diff != "" {
		t.Errorf("not what was recorded (-want +got):\n%s", diff)
	}
}

func TestFactsComeBackAsTheyWereRecorded(t *testing.T) {
	facts := someRun(1)
	for _, perBlock := range []int{1, 7, 1000} {
		got := decode(t, write(t, facts, perBlock))
		checkSame(t, got, facts)
	}
}

func TestOddRequestsComeBackAsTheyWereRecorded(t *testing.T) {
	odd := timeline.Batch{Requests: []timeline.Request{
		{Target: 0, Seq: 0},
		{Target: 1, Seq: 5, Due: math.MaxInt64 / 1000 * 1000, Sent: math.MinInt64 / 1000 * 1000, Done: 0},
		{Target: 1, Seq: 5, Due: time.Microsecond},
		{Target: 1, Seq: 1 << 63, Due: time.Microsecond},
		{Target: 65535, Seq: 3, Due: time.Hour, Outcome: timeline.Outcome{Class: timeline.NoSlot, Phases: timeline.Phases{DNS: math.MaxUint32, Connect: math.MaxUint32, TLS: math.MaxUint32, FirstByte: math.MaxUint32}}},
		{Target: 65535, Seq: math.MaxUint64, Due: -time.Hour, Sent: 0, Done: time.Hour, Outcome: timeline.Outcome{Class: timeline.Other, Code: 65535, Backend: 65535, Peer: 65535, Reused: true}},
	}}
	checkSame(t, unchecked(t, odd), []timeline.Fact{odd})
}

func TestRequestsOfABatchComeBackByTargetAndSeq(t *testing.T) {
	want := someRun(1)[10].(timeline.Batch)
	mixed := want
	mixed.Requests = slices.Clone(want.Requests)
	slices.Reverse(mixed.Requests)
	asGiven := slices.Clone(mixed.Requests)
	got := decode(t, write(t, []timeline.Fact{mixed}, 1))
	checkSame(t, got, []timeline.Fact{want})
	checkSame(t, mixed.Requests, asGiven)
}

// TestLengthsOfEveryMagnitudeComeBack covers each symbol, with many bits and few, and more than one block.
func TestLengthsOfEveryMagnitudeComeBack(t *testing.T) {
	var want timeline.Batch
	for shift := range 53 {
		for _, d := range []int64{-1, 0, 1} {
			v := micros(int64(1)<<shift + d)
			short := timeline.Micros(min(uint64(1)<<shift, math.MaxUint32))
			want.Requests = append(want.Requests,
				timeline.Request{Target: 1, Seq: uint64(len(want.Requests)), Due: v, Sent: 0, Done: -v, Outcome: timeline.Outcome{Phases: timeline.Phases{DNS: short, TLS: short}}})
		}
	}
	checkSame(t, unchecked(t, want), []timeline.Fact{want})
}

// unchecked writes and reads a fact that no run can have stated.
func unchecked(t *testing.T, fact timeline.Fact) (facts []timeline.Fact) {
	t.Helper()
	for _, p := range payloads(t, write(t, []timeline.Fact{fact}, 1)) {
		more, err := open(t, p)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, more...)
	}
	return facts
}

func TestInstantsFinerThanMicrosecondsAreRoundedOutward(t *testing.T) {
	for _, at := range []time.Duration{1500, -1500} {
		b := timeline.Batch{Requests: []timeline.Request{{Due: at, Sent: at, Done: at}}, Watermarks: []timeline.Watermark{{Due: at}}}
		got := decode(t, write(t, []timeline.Fact{b}, 1))
		r := got[0].(timeline.Batch).Requests[0]
		below, above := time.Duration(math.Floor(float64(at)/1000)*1000), time.Duration(math.Ceil(float64(at)/1000)*1000)
		if r.Due != below || r.Sent != below || r.Done != above {
			t.Errorf("%d ns became due %d, sent %d, done %d; want %d, %d, %d", at, r.Due, r.Sent, r.Done, below, below, above)
		}
		if mark := got[0].(timeline.Batch).Watermarks[0].Due; mark != below {
			t.Errorf("a watermark at %d ns became %d: it promises too much", at, mark)
		}
	}
}

func TestEveryPrefixDecodesToAPrefixOfTheFacts(t *testing.T) {
	facts := someRun(2)[:15]
	data := read(t, write(t, facts, 4))
	boundaries := blockEnds(data)
	for n := range len(data) {
		got, err := collect(Decode(bytes.NewReader(data[:n])))
		checkSame(t, got, facts[:len(got)])
		if slices.Contains(boundaries, n) {
			if err != nil {
				t.Fatalf("%d of %d bytes end at a block's end, yet: %v", n, len(data), err)
			}
		} else if !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d of %d bytes: error %v, want ErrTruncated", n, len(data), err)
		}
	}
}

// blockEnds lists the offsets at which a recording may end without being cut off.
func blockEnds(data []byte) []int {
	ends := []int{headerSize}
	r := bytes.NewReader(data[headerSize:])
	for {
		if _, err := readFrame(r, nil); err != nil {
			return ends
		}
		ends = append(ends, len(data)-r.Len())
	}
}

func TestEveryFlippedBitIsAnErrorAfterAnIntactPrefix(t *testing.T) {
	facts := someRun(3)[2:9]
	data := read(t, write(t, facts, 3))
	for bit := range len(data) * 8 {
		data[bit/8] ^= 1 << (bit % 8)
		got, err := collect(Decode(bytes.NewReader(data)))
		data[bit/8] ^= 1 << (bit % 8)
		if err == nil {
			t.Fatalf("bit %d flipped, and no error", bit)
		}
		if bit/8 >= headerSize && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v, want ErrCorrupt", bit, err)
		}
		checkSame(t, got, facts[:len(got)])
	}
}

// payloads returns what is in the blocks of a recording.
func payloads(t testing.TB, path string) (all [][]byte) {
	t.Helper()
	data := read(t, path)
	start := headerSize
	for _, end := range blockEnds(data)[1:] {
		all = append(all, data[start+blockHead:end])
		start = end
	}
	return all
}

// open returns the facts of a block.
func open(t testing.TB, payload []byte) (facts []timeline.Fact, err error) {
	t.Helper()
	var u unpacker
	return u.facts(payload)
}

func TestEveryBlockIsReadAlone(t *testing.T) {
	facts := someRun(8)
	var got []timeline.Fact
	blocks := payloads(t, write(t, facts, 5))
	for i := range blocks {
		more, err := open(t, blocks[len(blocks)-1-i])
		if err != nil {
			t.Fatal(err)
		}
		got = append(more, got...)
	}
	checkSame(t, got, facts)
}

func TestBlocksOfSeveralSourcesMakeOneRecording(t *testing.T) {
	one, other := someRun(11), []timeline.Fact{
		timeline.Source{ID: 2, Name: "prober-b", Role: timeline.Prober},
		timeline.Batch{Source: 2, Requests: []timeline.Request{{Target: 9, Due: time.Second, Sent: time.Second, Done: 2 * time.Second}}},
		timeline.Event{ID: 12, Source: 2, Kind: timeline.ProberStall},
	}
	path := filepath.Join(t.TempDir(), "merged.lapse")
	merged := header()
	blocks, more := payloads(t, write(t, one, 7)), payloads(t, write(t, other, 1))
	for i, b := range blocks {
		merged = appendFrame(merged, b)
		if i < len(more) {
			merged = appendFrame(merged, more[i])
		}
	}
	if err := os.WriteFile(path, merged, 0o644); err != nil {
		t.Fatal(err)
	}
	got := decode(t, path)
	if len(got) != len(one)+len(other) {
		t.Errorf("%d facts of %d and %d", len(got), len(one), len(other))
	}
	for _, fact := range other {
		if !slices.ContainsFunc(got, func(have timeline.Fact) bool { return reflect.DeepEqual(have, fact) }) {
			t.Errorf("%+v is missing", fact)
		}
	}
}

func TestExtendedCopyTakesRequests(t *testing.T) {
	facts := someRun(10)
	facts, own := facts[:len(facts)-5], facts[len(facts)-5:]
	data := read(t, write(t, facts, 5))
	path := filepath.Join(t.TempDir(), "copy.lapse")
	c, err := CreateCopy(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(c.Receive(bytes.NewReader(data))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Extend(own...), c.Close()); err != nil {
		t.Fatal(err)
	}
	checkSame(t, decode(t, path), slices.Concat(facts, own))
}

func FuzzDecode(f *testing.F) {
	facts := someRun(4)[:14]
	data := read(f, write(f, facts, 4))
	f.Add(uint32(len(data)), uint32(0), uint32(0))
	f.Add(uint32(len(data)), uint32(headerSize), uint32(1))
	f.Add(uint32(len(data)/2), uint32(len(data)/3), uint32(0x80000000))
	f.Fuzz(func(t *testing.T, length, at, flips uint32) {
		length = min(length, uint32(len(data)))
		damaged := slices.Clone(data[:length])
		for i := range 4 {
			if n := int(at) + i; n < len(damaged) {
				damaged[n] ^= byte(flips >> (8 * i))
			}
		}
		got, err := collect(Decode(bytes.NewReader(damaged)))
		checkSame(t, got, facts[:min(len(got), len(facts))])
		if err == nil && !bytes.HasPrefix(data, damaged) {
			t.Errorf("%d bytes, at %d flipped %x, and no error", length, at, flips)
		}
	})
}

// FuzzBlock opens blocks whose checksums hold, so that the fuzzer gets past them and past zstd.
func FuzzBlock(f *testing.F) {
	b, err := newBlock()
	if err != nil {
		f.Fatal(err)
	}
	for _, fact := range append(someRun(5)[:11:11], someRun(5)[13]) {
		if err := b.add(fact); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := b.pack(); err != nil {
		f.Fatal(err)
	}
	n := byte(len(b.requests))
	f.Add(slices.Clone(b.head), n, []byte(b.columns[colSeq]), []byte(b.columns[colLate]), []byte(b.columns[colRest]))
	f.Add([]byte{}, byte(0), []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, head []byte, n byte, seq, late, rest []byte) {
		payload := append(b.appendPacked(nil, head), n&0x7f)
		for column := range numColumns {
			payload = b.appendPacked(payload, map[int][]byte{colSeq: seq, colClass: late, colLate: late, colTarget: rest, colRest: rest}[column])
		}
		for _, want := range []reading{everything, heads, batches} {
			u := unpacker{reading: want}
			facts, err := u.facts(payload)
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			requests := 0
			for _, fact := range facts {
				if b, ok := fact.(timeline.Batch); ok {
					requests += len(b.Requests)
				}
			}
			if requests > int(n) {
				t.Fatalf("%d requests of %d", requests, n)
			}
		}
	})
}

func TestFileHoldsEverythingFlushedWhileItIsBeingWritten(t *testing.T) {
	facts := someRun(6)
	w, path := create(t)
	defer w.Close()
	for n, fact := range facts {
		if err := errors.Join(w.Append(fact), w.Flush()); err != nil {
			t.Fatal(err)
		}
		got, err := collect(Decode(bytes.NewReader(read(t, path))))
		if err != nil || len(got) != n+1 {
			t.Fatalf("after %d facts the file holds %d, error %v", n+1, len(got), err)
		}
	}
	if size := int64(len(read(t, path))); w.Size() != size {
		t.Errorf("Size is %d, the file's %d", w.Size(), size)
	}
}

func TestFlushOfNothingWritesNothing(t *testing.T) {
	w, path := create(t)
	if err := errors.Join(w.Flush(), w.Flush(), w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); len(got) != headerSize {
		t.Errorf("an empty recording has %d bytes, want %d", len(got), headerSize)
	}
	if err := w.Append(timeline.Backend{}); err == nil {
		t.Error("a closed recording takes facts")
	}
}

func TestFactThatCannotBeRecordedIsLeftOutAlone(t *testing.T) {
	w, path := create(t)
	want := []timeline.Fact{timeline.Backend{ID: 1}, timeline.Backend{ID: 2}}
	bad := []timeline.Fact{
		timeline.Target{Rate: math.NaN()},
		timeline.Batch{Requests: []timeline.Request{{}, {Outcome: timeline.Outcome{Class: timeline.NumClasses}}}},
		nil,
	}
	if err := w.Append(want[0]); err != nil {
		t.Fatal(err)
	}
	for _, fact := range bad {
		if err := w.Append(fact); err == nil {
			t.Errorf("%v was recorded", fact)
		}
	}
	if err := errors.Join(w.Append(want[1]), w.Close()); err != nil {
		t.Fatal(err)
	}
	got := decode(t, path)
	checkSame(t, got, want)
}

// A smallDisk is a file on a disk with room for so many bytes.
type smallDisk struct {
	*os.File
	room int
}

var errNoSpace = errors.New("no space left on device")

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	n, err := d.File.Write(p[:n])
	if err == nil && n < len(p) {
		err = errNoSpace
	}
	return n, err
}

func TestFullDiskIsReportedAndLeavesAnIntactPrefix(t *testing.T) {
	facts := someRun(7)
	for room := headerSize; room < 4000; room += 97 {
		path := filepath.Join(t.TempDir(), "run.lapse")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWriter(&smallDisk{f, room}, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, fact := range facts {
			err = errors.Join(err, w.Append(fact), w.Flush())
		}
		if !errors.Is(err, errNoSpace) || !errors.Is(w.Append(facts[0]), errNoSpace) || !errors.Is(w.Close(), errNoSpace) {
			t.Fatalf("room for %d bytes: the full disk was not reported: %v", room, err)
		}
		got, err := collect(Decode(bytes.NewReader(read(t, path))))
		if err != nil {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		checkSame(t, got, facts[:len(got)])
	}
}

func TestFileIsReadInPassesOfItsOwn(t *testing.T) {
	facts := someRun(8)
	f := opened(t, write(t, facts, 10))
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	var want gatherer
	var batches []timeline.Batch
	for _, fact := range facts {
		want.add(fact)
		if b, ok := fact.(timeline.Batch); ok {
			batches = append(batches, b)
		}
	}
	checkSame(t, run, want.run)
	next, stop := iter.Pull2(run.Batches) // a pass that is under way while another is made
	defer stop()
	first, _, _ := next()
	all, err := collect(run.Batches)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, all, batches)
	second, _, _ := next()
	checkSame(t, []timeline.Batch{first, second}, batches[:2])
}

func TestRunOfACutOffFileIsItsIntactPrefix(t *testing.T) {
	facts := someRun(9)
	path := write(t, facts, 10)
	data := read(t, path)
	if err := os.WriteFile(path, data[:len(data)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	run, err := f.Run()
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v, want ErrTruncated", err)
	}
	if run.Meta.ID != "r1" || len(run.Events) == 0 {
		t.Errorf("the intact prefix is missing: %+v", run)
	}
	if batches, err := collect(run.Batches); err != nil || len(batches) == 0 {
		t.Errorf("%d batches, error %v", len(batches), err)
	}
}

func TestRunOfAGrowingFileStaysAsItWas(t *testing.T) {
	w, path := create(t)
	defer w.Close()
	one := timeline.Batch{FirstSeq: 1}
	if err := errors.Join(w.Append(one), w.Flush()); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(timeline.Batch{FirstSeq: 2}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	batches, err := collect(run.Batches)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, batches, []timeline.Batch{one})
}

func TestOpenOfAnythingElseSaysSoWithAHint(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"empty": "", "text": "hello, world\n", "json": "{}", "short": "LAP", "newer": magic + string(rune(version+1)), "older": magic + "\x01", "zero": magic + "\x00"}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"empty", "text", "json", "short", "newer", "older", "zero", "missing", "."} {
		_, err := Open(filepath.Join(dir, name))
		_, ok := errors.AsType[*FileError](err)
		if !ok || hint.Of(err) == "" {
			t.Errorf("%s: %v is no error with a hint", name, err)
			continue
		}
		t.Logf("%v; hint: %s", err, hint.Of(err))
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path := write(t, someRun(1), 5)
	before := read(t, path)
	if _, err := Create(path); err == nil {
		t.Fatal("an existing recording was opened for writing")
	}
	if !bytes.Equal(before, read(t, path)) {
		t.Error("an existing recording was changed")
	}
}

func TestReaderThatFailsIsNotTakenForAnEnd(t *testing.T) {
	data := read(t, write(t, someRun(1), 5))
	boom := errors.New("connection reset")
	for _, n := range []int{0, 3, headerSize, headerSize + 5, headerSize + 40} {
		_, err := collect(Decode(io.MultiReader(bytes.NewReader(data[:n]), failing{boom})))
		if !errors.Is(err, boom) {
			t.Errorf("reading fails after %d bytes: error %v", n, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// opened opens a recording until the test ends.
func opened(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
