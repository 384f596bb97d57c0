package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const unlimited = math.MaxInt

func TestPutOfTheSameValueIsNoChange(t *testing.T) {
	store := NewStore()
	put(t, store, "verdict", map[string]int{"failed": 1})
	put(t, store, "verdict", map[string]int{"failed": 1})
	if seq := store.Snapshot().Seq; seq != 1 {
		t.Errorf("seq = %d after putting one value twice, want 1", seq)
	}
	put(t, store, "verdict", map[string]int{"failed": 2})
	if seq := store.Snapshot().Seq; seq != 2 {
		t.Errorf("seq = %d after another value, want 2", seq)
	}
}

func TestPutRefusesWhatJSONCannotHold(t *testing.T) {
	store := NewStore()
	put(t, store, "coverage", 0.5)
	if err := store.Put("coverage", math.NaN()); err == nil || !strings.Contains(err.Error(), `"coverage"`) {
		t.Errorf("Put(NaN) = %v, want an error that names the key", err)
	}
	if got := string(store.Snapshot().Entries["coverage"]); got != "0.5" {
		t.Errorf("value = %s after a refused Put, want the one before", got)
	}
}

func TestNextHoldsOnlyTheLatestValueOfAKey(t *testing.T) {
	store := NewStore()
	at := position{epoch: store.epoch}
	for i := range 1000 {
		put(t, store, "now", i)
	}
	d := store.next(&at, unlimited)
	if len(d.Put) != 1 || string(d.Put["now"]) != "999" || d.Seq != 1000 || d.Reset || d.More {
		t.Errorf("next = %+v, want now: 999 at seq 1000 and nothing else", d)
	}
	if again := store.next(&at, unlimited); !again.Empty() {
		t.Errorf("next without a change = %+v, want it empty", again)
	}
}

func TestDeleteReachesViewersOnce(t *testing.T) {
	store := NewStore()
	put(t, store, "window/1", "x")
	at := position{epoch: store.epoch, seq: 1}
	store.Delete("window/1")
	store.Delete("window/1")
	store.Delete("never there")
	d := store.next(&at, unlimited)
	if diff := cmp.Diff([]string{"window/1"}, d.Delete); diff != "" || len(d.Put) != 0 {
		t.Errorf("next = %+v: %s", d, diff)
	}
	put(t, store, "window/1", "again")
	if d := store.next(&at, unlimited); string(d.Put["window/1"]) != `"again"` || len(d.Delete) != 0 {
		t.Errorf("next after putting a deleted key again = %+v", d)
	}
	if _, there := store.Snapshot().Entries["window/1"]; !there {
		t.Error("a key put again after its deletion is missing in the snapshot")
	}
}

func TestViewersOfAnotherEpochStartOver(t *testing.T) {
	store := NewStore()
	put(t, store, "a", 1)
	put(t, store, "b", 2)
	store.Delete("a")
	for _, from := range []position{{}, {epoch: "another", seq: 2}, {epoch: store.epoch, seq: 99}} {
		d := store.next(&from, unlimited)
		if !d.Reset || len(d.Put) != 1 || len(d.Delete) != 1 || d.Seq != 3 {
			t.Errorf("next = %+v, want a reset with the whole state", d)
		}
	}
}

func TestViewersTooFarBehindStartOver(t *testing.T) {
	store := NewStore()
	put(t, store, "kept", 0)
	behind := position{epoch: store.epoch, seq: 1}
	for i := range maxTombstones + 1 {
		key := fmt.Sprint("event/", i)
		put(t, store, key, i)
		store.Delete(key)
	}
	put(t, store, "late", 0)
	if n := len(store.entries); n != 2 {
		t.Errorf("the store holds %d entries after forgetting its tombstones, want 2", n)
	}
	if d := store.next(&behind, unlimited); !d.Reset || len(d.Put) != 2 {
		t.Errorf("next for a viewer from before the forgotten deletions = %+v, want a reset", d)
	}
}

// A viewer that starts over in pieces must get through even though deletions were forgotten that
// lie behind the first pieces.
func TestStartingOverInPiecesComesToAnEnd(t *testing.T) {
	store := NewStore()
	for i := range 100 {
		put(t, store, fmt.Sprint("early/", i), i)
	}
	for i := range maxTombstones + 1 {
		put(t, store, "gone", i)
		store.Delete("gone")
		put(t, store, fmt.Sprint("gone/", i), i)
		store.Delete(fmt.Sprint("gone/", i))
	}
	var at position
	held := map[string]json.RawMessage{}
	resets := 0
	for range 1000 {
		d := store.next(&at, 100)
		if d.Reset {
			resets++
		}
		take(held, d)
		if !d.More {
			break
		}
	}
	if resets != 1 {
		t.Errorf("started over %d times, want once", resets)
	}
	if diff := cmp.Diff(store.Snapshot().Entries, held); diff != "" {
		t.Errorf("state after all pieces (-want +got):\n%s", diff)
	}
}

// Whatever happens and in whatever pieces it is sent, applying the deltas gives the snapshot.
func TestDeltasGiveTheSnapshot(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		store := NewStore()
		var at position
		held := map[string]json.RawMessage{}
		for range 400 {
			key := fmt.Sprint([]string{"event/", "group/"}[random.IntN(2)], random.IntN(15))
			switch random.IntN(4) {
			case 0:
				store.Delete(key)
			case 1:
				take(held, store.next(&at, random.IntN(60)))
			default:
				put(t, store, key, random.IntN(3))
			}
		}
		for d := (Delta{More: true}); d.More; {
			d = store.next(&at, 40)
			take(held, d)
		}
		snap := store.Snapshot()
		if diff := cmp.Diff(snap.Entries, held); diff != "" || at.seq != snap.Seq {
			t.Fatalf("seed %d: at seq %d of %d (-snapshot +deltas):\n%s", seed, at.seq, snap.Seq, diff)
		}
	}
}

// Whoever begins to look at a large state gets events, Pods and series last, and is told when all else is there, also
// if that changes meanwhile.
func TestWhatMayBeLongComesLast(t *testing.T) {
	store := NewStore()
	for i := range 20 {
		put(t, store, fmt.Sprint("event/", i), "an event")
		put(t, store, fmt.Sprint("window/", i), "a window")
	}
	put(t, store, "verdict", "pass")
	var at position
	held := map[string]json.RawMessage{}
	for head := false; !head; {
		d := store.next(&at, 200)
		take(held, d)
		head = d.Head
		for key := range d.Put {
			if isLong(key) {
				t.Fatalf("%s has come before the head of the state was there", key)
			}
		}
		if !d.More {
			t.Fatal("more follows, and the delta does not say so")
		}
		put(t, store, "verdict", len(held)) // what has changed meanwhile is there as well
		if !head {
			store.Delete("window/0")
		}
	}
	if len(held) != 20 || held["verdict"] == nil || held["window/19"] == nil || held["window/0"] != nil {
		t.Errorf("the head of the state is %v", held)
	}
	for more := true; more; {
		d := store.next(&at, 200)
		take(held, d)
		more = d.More
		if d.Head || d.Reset {
			t.Errorf("after the head comes %+v", d)
		}
	}
	if diff := cmp.Diff(store.Snapshot().Entries, held); diff != "" {
		t.Errorf("all (-snapshot +deltas):\n%s", diff)
	}
}

// take applies a delta as a viewer does.
func take(held map[string]json.RawMessage, d Delta) {
	if d.Reset {
		clear(held)
	}
	maps.Copy(held, d.Put)
	for _, key := range d.Delete {
		delete(held, key)
	}
}

func put(t *testing.T, store *Store, key string, value any) {
	t.Helper()
	if err := store.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkPut(b *testing.B) {
	store := NewStore()
	keys := slices.Collect(func(yield func(string) bool) {
		for i := range 10_000 {
			if !yield(fmt.Sprint("event/", i)) {
				return
			}
		}
	})
	for i := 0; b.Loop(); i++ {
		_ = store.Put(keys[i%len(keys)], i)
	}
}

func TestViewersSeeAllOfAnApplyOrNothing(t *testing.T) {
	store := NewStore()
	const keys, times = 50, 500
	applied := make(chan error, 1)
	go func() {
		var failed error
		for i := range times {
			values := map[string]any{}
			for k := range keys {
				values[fmt.Sprint("key/", k)] = i
			}
			failed = errors.Join(failed, store.Apply([]string{"key/0"}, values))
		}
		applied <- failed
	}()
	at := position{epoch: store.epoch}
	for last := ""; last != fmt.Sprint(times-1); {
		d := store.next(&at, unlimited)
		if len(d.Delete) != 0 || len(d.Put) != 0 && len(d.Put) != keys {
			t.Fatalf("a viewer saw %d of %d values change and %d deleted", len(d.Put), keys, len(d.Delete))
		}
		for _, value := range d.Put {
			if last = string(value); last != string(d.Put["key/0"]) {
				t.Fatalf("a viewer saw value %s beside %s", last, d.Put["key/0"])
			}
		}
		runtime.Gosched()
	}
	if err := <-applied; err != nil {
		t.Error(err)
	}
}
