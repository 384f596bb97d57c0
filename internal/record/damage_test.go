package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

// damagedRun is a run of 10 s with a block per second: its targets, then 10 requests and an event in each.
func damagedRun() (facts []timeline.Fact) {
	facts = []timeline.Fact{timeline.Meta{ID: "r1"}, timeline.Source{ID: 1, Name: "here"}, timeline.Target{ID: 1, Name: "new", Source: 1, Rate: 10}}
	for s := range 10 {
		b := timeline.Batch{Source: 1, FirstSeq: uint64(10 * s)}
		for i := range 10 {
			due := time.Duration(s)*time.Second + time.Duration(i)*100*time.Millisecond
			b.Requests = append(b.Requests, timeline.Request{Target: 1, Seq: uint64(10*s + i), Due: due, Sent: due, Done: due + time.Millisecond})
		}
		end := time.Duration(s+1) * time.Second
		b.Watermarks = []timeline.Watermark{{Target: 1, Due: end}}
		facts = append(facts, b, timeline.Event{ID: uint32(s + 1), Source: 1, Seen: end, Kind: timeline.CommandOutput})
		if s == 0 {
			facts = append(facts, timeline.Backend{Source: 1, ID: 1, Name: "web-1"})
		}
	}
	return facts
}

// damaged writes damagedRun with a block per second, and returns where each block begins.
func damaged(t *testing.T) (path string, data []byte, starts []int) {
	t.Helper()
	facts := damagedRun()
	w, path := create(t)
	for _, fact := range facts {
		if err := w.Append(fact); err != nil {
			t.Fatal(err)
		}
		if _, ok := fact.(timeline.Event); ok {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data = read(t, path)
	return path, data, blockEnds(data)
}

// readRun reads a recording whatever is wrong with it.
func readRun(t *testing.T, data []byte) (timeline.Run, []timeline.Batch, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.lapse")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	defer f.Close() // it is called very often
	run, err := f.Run()
	batches, berr := collect(run.Batches)
	if berr != nil {
		t.Errorf("reading the batches: %v", berr)
	}
	return run, batches, err
}

func TestADamagedBlockLosesOnlyItself(t *testing.T) {
	_, data, starts := damaged(t)
	for block := range 10 {
		for _, at := range []int{starts[block], starts[block] + 5, starts[block] + 10, starts[block] + 14, starts[block] + blockHead, starts[block+1] - 1} {
			data := slices.Clone(data)
			data[at] ^= 0x10
			run, batches, err := readRun(t, data)
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: error %v, want ErrCorrupt", at, err)
			}
			if len(batches) != 9 || len(run.Events) != 9 {
				t.Errorf("byte %d: %d batches and %d events, want 9 of each", at, len(batches), len(run.Events))
			}
			if run.Meta.ID != "r1" || len(run.Sources) != 1 || len(run.Targets) != 1 || len(run.Backends) != 1 {
				t.Errorf("byte %d: what the requests refer to is not there once: %+v", at, run)
			}
			for _, b := range batches {
				if b.FirstSeq == uint64(10*block) {
					t.Errorf("byte %d: the damaged batch was read", at)
				}
			}
		}
	}
}

func TestTheErrorSaysWhatIsMissing(t *testing.T) {
	_, data, starts := damaged(t)
	data[starts[4]+blockHead+3] ^= 1
	data[starts[5]+2] ^= 1
	data[starts[8]+blockHead] ^= 1
	_, _, err := readRun(t, data)
	for _, want := range []string{"with 20 requests recorded between 4s and 7s", "with 10 requests recorded between 8s and 10s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestARecordingWithoutAnIntactEndIsReadAsFarAsItGoes(t *testing.T) {
	_, data, starts := damaged(t)
	clear(data[starts[7]:]) // as a file system may leave it after a loss of power
	run, batches, err := readRun(t, data)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "recorded after 7s") {
		t.Errorf("error %v", err)
	}
	if len(batches) != 7 || len(run.Events) != 7 || run.Meta.ID != "r1" {
		t.Errorf("%d batches, %d events of %q", len(batches), len(run.Events), run.Meta.ID)
	}
}

func TestWhatIsReadOfAnyKilledRecordingIsItsBeginning(t *testing.T) {
	_, data, starts := damaged(t)
	for n := headerSize; n < len(data); n += 7 {
		_, batches, err := readRun(t, data[:n])
		whole := 0
		for whole+1 < len(starts) && starts[whole+1] <= n {
			whole++
		}
		if len(batches) != min(whole, 10) {
			t.Fatalf("%d bytes: %d batches, want %d", n, len(batches), whole)
		}
		if cut := !slices.Contains(starts, n); cut != errors.Is(err, ErrTruncated) {
			t.Fatalf("%d bytes: error %v", n, err)
		}
	}
}

// A run of many targets repeats them often enough that a block at its beginning can be lost while it goes on.
func TestDefinitionsAreRepeatedWhileARunGoesOn(t *testing.T) {
	w, path := create(t)
	f := newFake(12)
	facts := []timeline.Fact{timeline.Meta{ID: "r1"}, timeline.Target{ID: 1, Name: "new"}}
	for range 200 {
		facts = append(facts, f.batch(1, timeline.New, time.Millisecond, 1000))
	}
	for _, fact := range facts {
		if err := errors.Join(w.Append(fact), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	data := read(t, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ends := blockEnds(data)
	for i := headerSize; i < ends[2]; i++ { // the run and its target
		data[i] ^= 0xff
	}
	run, _, err := readRun(t, data)
	if !errors.Is(err, ErrCorrupt) || run.Meta.ID != "r1" || len(run.Targets) != 1 {
		t.Errorf("%v; run %q, targets %v", err, run.Meta.ID, run.Targets)
	}
}
