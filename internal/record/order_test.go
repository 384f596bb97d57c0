package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/timeline"
)

// Whatever was copied, moved or mixed in: no request and no event counts twice, and the error says what is left out.
func TestWhatIsRecordedTwiceCountsOnce(t *testing.T) {
	_, data, starts := damaged(t)
	block := func(n int) []byte { return data[starts[n]:starts[n+1]] }
	all := data[headerSize:]
	other := framed(t, timeline.Meta{ID: "r2"}, timeline.Batch{Source: 1, FirstSeq: 1000, Requests: make([]timeline.Request, 7)})
	batch := func(first, n int) timeline.Batch {
		b := timeline.Batch{Source: 1, FirstSeq: uint64(first)}
		for i := range n {
			b.Requests = append(b.Requests, timeline.Request{Target: 1, Seq: uint64(first + i)})
		}
		return b
	}
	for _, test := range []struct {
		name     string
		file     []byte
		requests int
		says     string
	}{
		{"a block twice", slices.Concat(data[:starts[4]], block(3), data[starts[4]:]), 100, isRepeated},
		{"a block again at the end", slices.Concat(data, block(3)), 100, isRepeated},
		{"every block twice", twice(data, starts), 100, isRestated},
		{"the file behind itself", slices.Concat(data, all), 100, isRestated},
		{"the file behind itself with its header", slices.Concat(data, data), 100, isRestated},
		{"the file behind its beginning", slices.Concat(data[:starts[4]], all), 100, isRestated},
		{"two blocks the wrong way round", slices.Concat(data[:starts[4]], block(5), block(4), data[starts[6]:]), 90, isRepeated},
		{"the last block first", slices.Concat(data[:headerSize], block(10), block(9), data[starts[0]:]), 10, isRestated},
		{"another run behind it", slices.Concat(data, other), 100, ofOtherRun},
		{"another run within it", slices.Concat(data[:starts[4]], other, data[starts[4]:]), 40, ofOtherRun},
		{"the run with other contents", slices.Concat(data, framed(t, timeline.Meta{ID: "r1", Tool: "other"}, batch(100, 5))), 100, isRestated},
		{"a batch that overlaps", slices.Concat(data, framed(t, batch(95, 10))), 100, isRepeated},
		{"a batch twice in a block", slices.Concat(data, framed(t, batch(100, 5), batch(100, 5))), 100, isRepeated},
		{"the largest number", slices.Concat(data, framed(t, batch(-1, 2))), 100, isRepeated},
		{"an event", slices.Concat(data, framed(t, timeline.Event{ID: 7, Source: 1})), 100, isRepeated},
		{"held changes", slices.Concat(data, framed(t, timeline.HeldBatch{Source: 1, Changes: make([]timeline.HeldChange, 3)}),
			framed(t, timeline.HeldBatch{Source: 1, FirstSeq: 2, Changes: make([]timeline.HeldChange, 1)})), 100, isRepeated},
	} {
		t.Run(test.name, func(t *testing.T) {
			run, batches, err := readRun(t, test.file)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want that %s", err, test.says)
			}
			seen := map[uint64]bool{}
			for _, b := range batches {
				for _, r := range b.Requests {
					if seen[r.Seq] {
						t.Errorf("request %d is there twice", r.Seq)
					}
					seen[r.Seq] = true
				}
			}
			if len(seen) != test.requests {
				t.Errorf("%d requests, want %d", len(seen), test.requests)
			}
			for i, e := range run.Events {
				if i > 0 && e.ID <= run.Events[i-1].ID {
					t.Errorf("event %d comes after event %d", e.ID, run.Events[i-1].ID)
				}
			}
			if run.Meta.ID != "r1" || run.Meta.Tool != "" || len(run.Targets) != 1 {
				t.Errorf("run %+v, targets %+v", run.Meta, run.Targets)
			}
		})
	}
}

func twice(data []byte, starts []int) []byte {
	doubled := slices.Clone(data[:headerSize])
	for i := range len(starts) - 1 {
		doubled = append(doubled, data[starts[i]:starts[i+1]]...)
		doubled = append(doubled, data[starts[i]:starts[i+1]]...)
	}
	return doubled
}

// framed returns facts as a block.
func framed(t *testing.T, facts ...timeline.Fact) []byte {
	t.Helper()
	b, err := newBlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range facts {
		if err := b.add(fact); err != nil {
			t.Fatal(err)
		}
	}
	payload, err := b.pack()
	if err != nil {
		t.Fatal(err)
	}
	return appendFrame(nil, payload)
}

// A connection that begins anew at the wrong place must not put a block into the copy a second time.
func TestACopyTakesNoBlockTwice(t *testing.T) {
	_, data, starts := damaged(t)
	c, err := CreateCopy(t.TempDir() + "/copy.lapse")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := collect(c.Receive(bytes.NewReader(data[:starts[4]]))); err != nil {
		t.Fatal(err)
	}
	if _, err := collect(c.Receive(bytes.NewReader(data[starts[3]:]))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
	if c.Size() != int64(starts[4]) {
		t.Errorf("%d bytes are in the copy, want the %d that are right", c.Size(), starts[4])
	}
	if err := c.Extend(timeline.Event{ID: 4, Source: 1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v of an event with a number that was used, want ErrCorrupt", err)
	}
	if err := c.Extend(timeline.Event{ID: 5, Source: 1}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotOnDiskIsNoCopy(t *testing.T) {
	_, data, _ := damaged(t)
	for name, test := range map[string]struct {
		change func(path string) error
		closes bool
	}{
		"written to":  {func(path string) error { return os.WriteFile(path, data[:100], 0o644) }, true},
		"appended to": {func(path string) error { return os.WriteFile(path, append(slices.Clone(data), 0), 0o644) }, true},
		"removed":     {os.Remove, false},
		"replaced":    {func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, data, 0o644)) }, false},
	} {
		path := filepath.Join(t.TempDir(), "copy.lapse")
		c, err := CreateCopy(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = collect(c.Receive(bytes.NewReader(data)))
		if err := errors.Join(err, c.Check()); err != nil {
			t.Fatal(err)
		}
		if err := test.change(path); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); (err == nil) != (name == "replaced") {
			t.Errorf("%s: checked with %v", name, err)
		}
		if err := c.Close(); (err == nil) != test.closes {
			t.Errorf("%s: closed with %v", name, err)
		}
	}
}
