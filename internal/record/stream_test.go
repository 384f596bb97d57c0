package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/timeline"
)

func TestTailFollowsARecordingToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		facts := someRun(1)
		w, _ := create(t)
		tail, err := w.Tail(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		go func() {
			for _, fact := range facts {
				time.Sleep(time.Second)
				if err := errors.Join(w.Append(fact), w.Flush()); err != nil {
					t.Error(err)
				}
			}
			w.Close()
		}()
		got := 0
		for fact, err := range Decode(tail) {
			if err != nil {
				t.Fatal(err)
			}
			checkSame(t, fact, facts[got])
			got++
			if left := w.log.length(); left == 0 {
				t.Fatal("nothing recorded")
			}
		}
		if got != len(facts) {
			t.Errorf("%d of %d facts arrived", got, len(facts))
		}
	})
}

func TestTailHandsOutCompleteBlocksOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := create(t)
		tail, err := w.Tail(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		reads := make(chan int64, 100)
		go func() {
			defer close(reads)
			buf := make([]byte, 1<<20)
			for {
				n, err := tail.Read(buf)
				if err == io.EOF {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				reads <- int64(n)
			}
		}()
		var at int64
		for range 5 {
			if err := errors.Join(w.Append(timeline.Backend{ID: 1}), w.Flush(), w.Append(timeline.Backend{ID: 2})); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for len(reads) > 0 {
				at += <-reads
			}
			if at != w.Size() {
				t.Fatalf("%d bytes were handed out, complete blocks are %d", at, w.Size())
			}
		}
		w.Close()
		synctest.Wait()
		if n := <-reads; at+n != w.Size() {
			t.Errorf("%d bytes were handed out, the recording has %d", at+n, w.Size())
		}
	})
}

func TestTailEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := create(t)
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tail, err := w.Tail(ctx, w.Size())
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		if _, err := tail.Read(make([]byte, 10)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestTailBeyondTheEndIsAnError(t *testing.T) {
	w, _ := create(t)
	defer w.Close()
	for _, offset := range []int64{-1, w.Size() + 1} {
		if _, err := w.Tail(t.Context(), offset); err == nil {
			t.Errorf("offset %d of %d is taken", offset, w.Size())
		}
	}
}

func TestCopyOverBrokenConnectionsIsTheSameFile(t *testing.T) {
	facts := someRun(2)
	data := read(t, write(t, facts, 6))
	for _, step := range []int{1, 100, 1000, len(data)} {
		path := filepath.Join(t.TempDir(), "copy.lapse")
		c, err := CreateCopy(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []timeline.Fact
		for cut := step; c.Size() < int64(len(data)); cut += step {
			part := data[c.Size():min(cut, len(data))]
			facts, err := collect(c.Receive(iotest.OneByteReader(bytes.NewReader(part))))
			if err != nil && !errors.Is(err, ErrTruncated) {
				t.Fatal(err)
			}
			got = append(got, facts...)
		}
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, facts)
		if !bytes.Equal(read(t, path), data) {
			t.Errorf("steps of %d bytes: the copy differs from the original", step)
		}
		sum := sha256.Sum256(data)
		if want := hex.EncodeToString(sum[:]); c.Sum() != want {
			t.Errorf("the copy's sum is %s, want %s", c.Sum(), want)
		}
	}
}

func TestCopyKeepsNoDamagedBlock(t *testing.T) {
	data := read(t, write(t, someRun(3), 6))
	ends := blockEnds(data)
	data[ends[2]+40] ^= 4
	path := filepath.Join(t.TempDir(), "copy.lapse")
	c, err := CreateCopy(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := collect(c.Receive(bytes.NewReader(data))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
	if got := read(t, path); !bytes.Equal(got, data[:ends[2]]) {
		t.Errorf("the copy has %d bytes, the intact blocks %d", len(got), ends[2])
	}
}

func TestSumsOfWriterAndFileAgree(t *testing.T) {
	w, path := create(t)
	for _, fact := range someRun(4) {
		if err := w.Append(fact); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(read(t, path))
	if want := hex.EncodeToString(sum[:]); w.Sum() != want {
		t.Errorf("the writer's sum is %s, the file's %s", w.Sum(), want)
	}
}

func TestExtendedCopyHoldsBothParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.lapse")
	c, err := CreateCopy(path)
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(t.TempDir(), "original.lapse")
	w, err := Create(original)
	if err != nil {
		t.Fatal(err)
	}
	first := timeline.Event{ID: 1, Kind: timeline.RunPhase, To: "baseline"}
	if err := errors.Join(w.Append(first), w.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.Receive(bytes.NewReader(data)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	last := timeline.Event{ID: 2, Kind: timeline.RunPhase, To: "ended", Detail: "lost"}
	if err := errors.Join(c.Extend(last), c.Close()); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	run, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	if want := []timeline.Event{first, last}; !cmp.Equal(run.Events, want, sameFacts) {
		t.Errorf("events %v, want %v", run.Events, want)
	}
}
