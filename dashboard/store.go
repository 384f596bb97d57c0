package dashboard

import (
	"bytes"
	"container/list"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Protocol is the version of the messages between server and page. It rises when a reader of the
// old one would misread the new one.
const Protocol = 1

// maxTombstones is how many deletions a store remembers for viewers that were away.
const maxTombstones = 4096

// A Snapshot is the whole state of a store at Seq.
type Snapshot struct {
	Protocol int                        `json:"protocol"`
	Epoch    string                     `json:"epoch"` // names the store; a restarted server has another
	Seq      uint64                     `json:"seq"`
	Entries  map[string]json.RawMessage `json:"entries"`
}

// A Delta takes a viewer that holds the state of Epoch at an earlier sequence number to Seq.
type Delta struct {
	Protocol int    `json:"protocol"`
	Epoch    string `json:"epoch"`
	Seq      uint64 `json:"seq"`
	Reset    bool   `json:"reset,omitzero"` // drop everything first
	// the state is whole only with the next delta, which follows at once
	More bool `json:"more,omitzero"`
	// what has come is whole but for what may be long: it may be drawn, although more follows
	Head   bool                       `json:"head,omitzero"`
	Put    map[string]json.RawMessage `json:"put,omitzero"`
	Delete []string                   `json:"delete,omitzero"`
}

// Empty reports whether d changes nothing.
func (d Delta) Empty() bool { return !d.Reset && len(d.Put) == 0 && len(d.Delete) == 0 }

// A Store holds what the page shows: JSON values under keys, each with the sequence number of its
// last change. Its methods may be called from any goroutine, and none waits for a viewer.
//
// There is one list of the entries for all viewers, the latest change last, and a viewer is a
// position in it: what a viewer has not seen yet is the list's tail. So neither Put nor a viewer's
// memory depends on how many others look on or how far they have fallen behind.
type Store struct {
	epoch string

	mu         sync.Mutex // held for map and list steps only: never while encoding, never while sending
	seq        uint64
	entries    map[string]*list.Element // of *entry
	order      list.List                // of *entry, seq rising
	tombstones int
	horizon    uint64 // deletions up to this sequence number may be forgotten
	detail     func(part string) map[string]any
}

// An entry is a key's present value.
type entry struct {
	key   string
	value json.RawMessage // nil marks a tombstone: the key was deleted
	seq   uint64
}

// NewStore returns an empty store with an epoch of its own.
func NewStore() *Store {
	return &Store{epoch: rand.Text(), entries: map[string]*list.Element{}}
}

// Put sets key's value, encoded as JSON. A value that encodes to the same bytes as the present one
// is no change. The error tells of a value that JSON cannot hold, such as NaN; the present value then stays.
func (s *Store) Put(key string, value any) error {
	return s.Apply(nil, map[string]any{key: value})
}

// Delete removes key. Viewers that hold it get its deletion.
func (s *Store) Delete(key string) { _ = s.Apply([]string{key}, nil) }

func (s *Store) put(key string, value json.RawMessage) {
	if old := s.lookup(key); old == nil || !bytes.Equal(old, value) {
		s.set(key, value)
	}
}

func (s *Store) delete(key string) {
	if s.lookup(key) == nil {
		return
	}
	s.set(key, nil)
	if s.tombstones > maxTombstones {
		s.forgetTombstones()
	}
}

// Apply deletes these keys and then puts these values, in one step: no viewer sees some of the changes without the
// others. The error tells of values that JSON cannot hold; the present ones then stay, and all other changes are
// made.
func (s *Store) Apply(deleted []string, values map[string]any) error {
	encoded := make(map[string]json.RawMessage, len(values))
	var failed []error
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			failed = append(failed, fmt.Errorf("encode dashboard value %q: %w", key, err))
			continue
		}
		encoded[key] = text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range deleted {
		s.delete(key)
	}
	for key, text := range encoded {
		s.put(key, text)
	}
	return errors.Join(failed...)
}

// Detail sets what viewers can ask for beside the state: the values of keys that it does not hold, by the name of a
// part of what is shown. A viewer that asks waits for it, and nobody else does. It is called from any goroutine.
func (s *Store) Detail(of func(part string) map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail = of
}

// details returns the values of these parts, with the state's sequence number at that moment.
func (s *Store) details(parts []string) (Snapshot, error) {
	s.mu.Lock()
	snap, of := Snapshot{
		Protocol: Protocol, Epoch: s.epoch, Seq: s.seq, Entries: map[string]json.RawMessage{},
	}, s.detail
	s.mu.Unlock()
	if of == nil {
		return snap, nil
	}
	for _, part := range parts {
		for key, value := range of(part) {
			encoded, err := json.Marshal(value)
			if err != nil {
				return snap, fmt.Errorf("encode dashboard value %q: %w", key, err)
			}
			snap.Entries[key] = encoded
		}
	}
	return snap, nil
}

// lookup returns key's value, nil if there is none.
func (s *Store) lookup(key string) json.RawMessage {
	if e, ok := s.entries[key]; ok {
		return e.Value.(*entry).value
	}
	return nil
}

// set gives key a value (nil: a tombstone) and moves it to the end of the list.
func (s *Store) set(key string, value json.RawMessage) {
	s.seq++
	at, known := s.entries[key]
	if !known {
		at = s.order.PushBack(&entry{key: key})
		s.entries[key] = at
	}
	e := at.Value.(*entry)
	if known && e.value == nil {
		s.tombstones--
	}
	if value == nil {
		s.tombstones++
	}
	e.value, e.seq = value, s.seq
	s.order.MoveToBack(at)
}

// forgetTombstones drops all of them. Viewers that have not come as far must start over.
func (s *Store) forgetTombstones() {
	for at := s.order.Front(); at != nil; {
		next := at.Next()
		if e := at.Value.(*entry); e.value == nil {
			s.order.Remove(at)
			delete(s.entries, e.key)
			s.horizon = e.seq
		}
		at = next
	}
	s.tombstones = 0
}

// Snapshot returns the whole state. The values must not be changed.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{
		Protocol: Protocol, Epoch: s.epoch, Seq: s.seq,
		Entries: make(map[string]json.RawMessage, len(s.entries)-s.tombstones),
	}
	for key, at := range s.entries {
		if e := at.Value.(*entry); e.value != nil {
			snap.Entries[key] = e.value
		}
	}
	return snap
}

// A position is how far a viewer has come.
type position struct {
	epoch string
	seq   uint64 // every entry up to here was sent
	clean uint64 // the viewer held nothing when the store was here: earlier deletions do not concern it
	begun bool   // the viewer gets what may be long after all else, and all else has not been sent yet
	ahead uint64 // up to here, all else was sent
}

// long begins the keys of values of which there may be very many. Whoever begins to look gets them last.
var long = []string{"event/", "pod/", "bucket/"}

func isLong(key string) bool {
	return slices.ContainsFunc(long, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// next returns the changes after p, at most about maxBytes of them (but at least one), and moves p
// behind them.
func (s *Store) next(p *position, maxBytes int) Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Delta{Protocol: Protocol, Epoch: s.epoch}
	if p.epoch != s.epoch || p.seq > s.seq || max(p.seq, p.clean) < s.horizon {
		d.Reset = true
		*p = position{epoch: s.epoch, clean: s.seq, begun: s.size() > maxBytes}
	}
	if p.begun {
		p.ahead, d.More = s.take(&d, p.ahead, maxBytes, func(e *entry) bool {
			return !isLong(e.key) && (e.value != nil || e.seq > p.clean)
		})
		if d.More {
			d.Seq = p.seq
			return d
		}
		p.begun, d.More = false, s.hasLong()
		if d.Head = d.More; !d.More {
			p.seq = s.seq
		}
		d.Seq = p.seq
		return d
	}
	p.seq, d.More = s.take(&d, p.seq, maxBytes, func(e *entry) bool { return e.seq > p.ahead || isLong(e.key) })
	d.Seq = p.seq
	return d
}

// take adds the chosen entries after a sequence number to d, at most about maxBytes of them (but at least one). It
// returns how far it came, and whether there are more.
func (s *Store) take(d *Delta, after uint64, maxBytes int, chosen func(*entry) bool) (came uint64, more bool) {
	size := 0
	for at := s.firstAfter(after); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		if !chosen(e) {
			continue
		}
		if size > 0 && size+e.size() > maxBytes {
			return after, true
		}
		size += e.size()
		d.add(e)
		after = e.seq
	}
	return s.seq, false
}

// hasLong reports whether there are values of which there may be very many.
func (s *Store) hasLong() bool {
	for key := range s.entries {
		if isLong(key) {
			return true
		}
	}
	return false
}

// size is about how many bytes all values take in messages.
func (s *Store) size() (bytes int) {
	for _, at := range s.entries {
		if e := at.Value.(*entry); e.value != nil {
			bytes += e.size()
		}
	}
	return bytes
}

// firstAfter returns the first element whose entry changed after seq, nil if none did.
func (s *Store) firstAfter(seq uint64) *list.Element {
	var first *list.Element
	for at := s.order.Back(); at != nil && at.Value.(*entry).seq > seq; at = at.Prev() {
		first = at
	}
	return first
}

// size is about how many bytes the entry takes in a message.
func (e *entry) size() int { return len(e.key) + len(e.value) + 8 }

// add takes an entry's present state into the delta.
func (d *Delta) add(e *entry) {
	if e.value == nil {
		d.Delete = append(d.Delete, e.key)
		return
	}
	if d.Put == nil {
		d.Put = map[string]json.RawMessage{}
	}
	d.Put[e.key] = e.value
}
