package engine

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"lapse/timeline"
)

// names are what the names of dns:// targets have, by the answers: an event each time that they change.
type names struct {
	mu      sync.Mutex
	targets map[string]*nameHistory
	new     []timeline.Event // not yet handed on
}

// mostNameChanges is how many changes of one target are handed on: the servers behind one address may each say
// something else.
const mostNameChanges = 1000

// A nameHistory is what is known of one target's name.
type nameHistory struct {
	since   time.Duration // when the last query was sent whose answer was as in the last event
	seen    time.Duration // when the answer of the last event came
	text    string        // what that answer says
	changes int
	lookup  timeline.Lookup
}

// note takes an answer, as a text and as the addresses in it. The text is empty if no answer said what the name has.
// Answers count in the order of their queries: the answer to a query older than the last one that changed something is
// late and changes nothing. Nor does the answer to a query that was sent before the last change was answered, because
// the server may have answered it before the change. The next one will show it.
//
//	sent 0 {a b}, sent 5 ms {a b}, sent 10 ms lost, sent 15 ms {a}, answered at 16 ms
//	→ answered {a}, Since 5 ms, Seen 16 ms
func (n *names) note(target, name string, sent, done time.Duration, text []byte, addrs []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.of(target, name)
	h.lookup.Asked++
	if len(text) == 0 {
		return
	}
	h.lookup.Answered++
	sent = FloorMicros(sent)
	switch {
	case h.lookup.Answered > 1 && sent < h.since:
		return
	case h.lookup.Answered == 1:
		h.since = sent
	case h.text == string(text) && slices.Equal(h.lookup.Addrs, addrs):
		h.since = sent
		return
	case sent < h.seen:
		return
	}
	e := timeline.Event{
		Kind: timeline.NameAnswered, Since: h.since, Seen: CeilMicros(done), To: timeline.LookupAnswered,
		Object: timeline.Object{Kind: "Target", Name: target},
	}
	if h.changes > 0 {
		e.From = timeline.LookupAnswered
	}
	if h.lookup.Addrs = slices.Clone(addrs); len(addrs) == 0 {
		e.Detail = string(text)
	}
	h.since, h.seen, h.text = sent, done, string(text)
	lookup := h.lookup
	e.Lookup = &lookup
	switch h.changes++; {
	case h.changes == mostNameChanges:
		e.Detail = "what it answers later is not recorded: it has changed 1000 times"
	case h.changes > mostNameChanges:
		return
	}
	n.new = append(n.new, e)
}

func (n *names) of(target, name string) *nameHistory {
	h := n.targets[target]
	if h == nil {
		if n.targets == nil {
			n.targets = map[string]*nameHistory{}
		}
		h = &nameHistory{lookup: timeline.Lookup{Name: name, Addrs: []netip.Addr{}}}
		n.targets[target] = h
	}
	return h
}

// Take returns the events since the last call.
func (n *names) Take() []timeline.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.new
	n.new = nil
	return taken
}
