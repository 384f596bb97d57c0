package record

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"lapse/timeline"
)

func inMemory(t *testing.T, span time.Duration, size int) *Writer {
	t.Helper()
	w, err := NewInMemory(span, size)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// kept returns how many bytes a recording in memory holds.
func (w *Writer) kept() int {
	m := w.log.file.(*memory)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

func TestHourInMemoryStaysBoundedAndItsFollowerGetsEachFactOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const span, most = 2 * time.Minute, 40 << 10
		w, fake := inMemory(t, span, most), newFake(1)
		tail, err := w.Tail(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		var sent []timeline.Fact
		go func() {
			for i := range 3600 {
				time.Sleep(time.Second)
				batch := fake.batch(1, timeline.New, 20*time.Millisecond, 1+i%50)
				sent = append(sent, batch)
				if err := errors.Join(w.Append(timeline.Peer{Source: 1, ID: uint16(i)}), w.Append(batch), w.Flush()); err != nil {
					t.Error(err)
				}
				if kept := w.kept(); kept > most {
					t.Errorf("after %d s it keeps %d bytes", i, kept)
				}
				if defs := len(w.block.defs.facts); defs > 0 {
					t.Errorf("it keeps %d definitions", defs)
				}
			}
			w.Close()
		}()
		var got []timeline.Fact
		for fact, err := range Decode(tail) {
			if err != nil {
				t.Fatal(err)
			}
			if batch, ok := fact.(timeline.Batch); ok {
				got = append(got, batch)
			}
		}
		checkSame(t, got, sent)
		if w.Size() < 10*most {
			t.Errorf("the recording has %d bytes only: nothing had to go", w.Size())
		}
	})
}

func TestMemoryKeepsTheBlocksOfItsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inMemory(t, 2*time.Minute, 1<<20)
		sizes := map[time.Duration]int64{}
		for now := time.Duration(0); now <= 5*time.Minute; now += time.Second {
			sizes[now] = w.Size()
			if err := errors.Join(w.Append(timeline.Backend{ID: 1, Name: "web-1"}), w.Flush()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if _, err := w.Tail(t.Context(), sizes[3*time.Minute]); err != nil {
			t.Errorf("a block of 2 minutes ago: %v", err)
		}
		_, err := w.Tail(t.Context(), sizes[3*time.Minute-time.Second])
		gone, ok := errors.AsType[*ForgottenError](err)
		if !ok || gone.First != sizes[3*time.Minute] {
			t.Errorf("an older block: %v; want that the first byte is %d", err, sizes[3*time.Minute])
		}
	})
}

func TestReaderThatIsTooSlowIsToldSo(t *testing.T) {
	w := inMemory(t, time.Hour, 1000)
	tail, err := w.Tail(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	for range 100 {
		if err := errors.Join(w.Append(timeline.Backend{ID: 1, Name: "web-1"}), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.ReadAll(tail)
	if _, ok := errors.AsType[*ForgottenError](err); !ok {
		t.Errorf("error is %v", err)
	}
}

func TestRecordingInMemoryIsThatOfAFile(t *testing.T) {
	facts := someRun(5)
	w := inMemory(t, time.Hour, 1<<20)
	for _, fact := range facts {
		if err := errors.Join(w.Append(fact), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tail, err := w.Tail(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(Decode(tail))
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, facts)
}
