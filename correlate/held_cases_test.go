package correlate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// A case with held connections has a section "held", read after its requests, of which one target is "held". It
// begins with how many there are, the heartbeat, and the Pods that they are on in turn ("-" is one that replies do
// not name):
//
//	-- held --
//	12 over 1200ms on web-1 web-2 web-3
//	10s web-1 eof to=web-2 back=12ms            all that are on web-1 then are noticed to be closed at 10s
//	10s web-1 reset at=beat to=web-2 back=5ms   … each at its next heartbeat
//	10s web-1 silent to=web-3 back=7ms          … each when the heartbeat after the next is due
//	4s 0-3 eof at=age=700ms back=2ms            connections 0 to 3, when their last answer is 700 ms old
//	10s web-1 eof warned back=0.3ms             the end was announced
//	10s web-1 reset failed=3 refused            after three attempts that failed, it does not stand again
//
// Connection i's heartbeats are due at i/n of the interval, and are answered a millisecond later.
type heldCase struct {
	target  *timeline.Target
	on      []string // who is on each connection
	beat    time.Duration
	names   []string
	changes []timeline.HeldChange
}

func (c *caseRun) heldLines(lines []string) {
	if len(lines) == 0 {
		return
	}
	i := slices.IndexFunc(c.streams, func(s *stream) bool { return s.target.Kind == timeline.Held })
	c.held = &heldCase{target: &c.streams[i].target}
	c.held.begin(strings.Fields(lines[0]))
	for _, line := range lines[1:] {
		c.held.line(strings.Fields(line))
	}
}

func (h *heldCase) begin(words []string) {
	n, pods := must(strconv.Atoi(words[0])), words[4:]
	h.beat = must(time.ParseDuration(words[2]))
	h.target.Connections, h.target.Rate = n, float64(n)/h.beat.Seconds()
	for i := range n {
		h.on = append(h.on, pods[i%len(pods)])
		h.changes = append(h.changes, timeline.HeldChange{Target: h.target.ID, Conn: uint32(i), From: time.Millisecond,
			At: 2 * time.Millisecond, Backend: h.backend(h.on[i])})
	}
}

func (h *heldCase) backend(name string) uint16 {
	if name == "-" {
		return 0
	}
	if !slices.Contains(h.names, name) {
		h.names = append(h.names, name)
	}
	return uint16(1 + slices.Index(h.names, name))
}

// lastBeat is the last heartbeat of a connection that was sent before an instant.
func (h *heldCase) lastBeat(conn int, at time.Duration) time.Duration {
	offset := h.beat * time.Duration(conn) / time.Duration(len(h.on))
	return max(time.Millisecond, offset+(at-time.Millisecond-offset)/h.beat*h.beat)
}

func (h *heldCase) line(words []string) {
	at, which, how := must(time.ParseDuration(words[0])), words[1], words[2]
	args := map[string]string{}
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		args[key] = value
	}
	n := 0
	for i, pod := range h.on {
		if from, to, isRange := strings.Cut(which, "-"); isRange && from != "web" {
			if i < must(strconv.Atoi(from)) || i > must(strconv.Atoi(to)) {
				continue
			}
		} else if pod != which {
			continue
		}
		h.cut(i, at+time.Duration(n)*100*time.Microsecond, how, args)
		n++
	}
}

func (h *heldCase) cut(i int, at time.Duration, how string, args map[string]string) {
	last := h.lastBeat(i, at)
	switch age, aged := strings.CutPrefix(args["at"], "age="); {
	case aged:
		at = last + time.Millisecond + must(time.ParseDuration(age)) + time.Duration(i)*100*time.Microsecond
	case args["at"] == "beat":
		at = last + h.beat + time.Millisecond
	case how == "silent":
		at = last + 2*h.beat
	}
	class := map[string]timeline.Class{"eof": timeline.EOF, "reset": timeline.Reset,
		"silent": timeline.TimeoutResponse}[how]
	_, warned := args["warned"]
	c := timeline.HeldChange{
		Target: h.target.ID, Conn: uint32(i), Kind: timeline.HeldCut, Class: class, From: last,
		Answered: last + time.Millisecond, At: at, Warned: warned, Backend: h.backend(h.on[i]),
	}
	h.changes = append(h.changes, c)
	failed, _ := strconv.Atoi(args["failed"])
	for n := range failed {
		from := at + time.Duration(n)*10*time.Millisecond
		h.changes = append(h.changes, timeline.HeldChange{Target: h.target.ID, Conn: uint32(i),
			Kind: timeline.HeldFailed, Class: timeline.Refused, From: from, At: from + time.Millisecond})
	}
	if args["back"] == "" {
		return
	}
	back := must(time.ParseDuration(args["back"]))
	h.on[i] = cmp.Or(args["to"], h.on[i])
	h.changes = append(h.changes, timeline.HeldChange{Target: h.target.ID, Conn: uint32(i), Kind: timeline.HeldOpened,
		From: at + back - min(back, time.Millisecond), At: at + back, Backend: h.backend(h.on[i])})
}

// facts are those of the case's held connections: they come in order, as a prober hands them on.
func (h *heldCase) facts(end time.Duration) (held []timeline.HeldBatch, backends []timeline.Backend) {
	for i, name := range h.names {
		backends = append(backends, timeline.Backend{Source: 1, ID: uint16(i + 1), Name: name})
	}
	changes := slices.Clone(h.changes)
	open := map[uint32]timeline.HeldChange{}
	slices.SortStableFunc(changes, func(a, b timeline.HeldChange) int { return cmp.Compare(a.At, b.At) })
	for _, c := range changes {
		delete(open, c.Conn)
		if c.Kind == timeline.HeldOpened {
			open[c.Conn] = c
		}
	}
	for i := range h.on {
		if c, standing := open[uint32(i)]; standing {
			last := max(c.From, h.lastBeat(i, end))
			changes = append(changes, timeline.HeldChange{Target: h.target.ID, Conn: c.Conn, Kind: timeline.HeldClosed,
				From: last, Answered: max(last+time.Millisecond, c.At), At: end, Backend: c.Backend})
		}
	}
	seq := uint64(0)
	for some := range slices.Chunk(changes, 7) {
		held = append(held, timeline.HeldBatch{Source: 1, FirstSeq: seq, Changes: some})
		seq += uint64(len(some))
	}
	return held, backends
}

func printConnections(tl *model.Timeline) string {
	var b strings.Builder
	for _, h := range tl.Held {
		fmt.Fprintf(&b, "%s: %s\n", h.Target, verdict.HeldFound(&model.Timeline{Held: []model.Held{h}}))
		for _, w := range h.Windows {
			fmt.Fprintf(&b, "window %d, start %s, end %s: %d/%d cut: %s, %d unwarned, %d missing; %d attempts, at "+
				"most %d in a second", w.ID, bracket(w.Start), bracket(w.End),
				w.Failed, w.Sent, quantity.ClassCounts(w.Classes), w.Unwarned, w.Missing, w.Attempts, w.Busiest)
			if w.Back != nil {
				fmt.Fprintf(&b, "; back after %s", verdict.BackText(*w.Back))
			}
			if len(w.Refused) > 0 {
				fmt.Fprintf(&b, "; %s", quantity.ClassCounts(w.Refused))
			}
			b.WriteString("\n")
			for _, cause := range w.Causes {
				printCause(&b, cause)
			}
		}
	}
	return b.String()
}

// heldCausesOf are the first causes of a run's held windows.
func heldCausesOf(tl *model.Timeline) (rules []string) {
	for _, w := range tl.HeldWindows() {
		rules = append(rules, w.Causes[0].Rule)
	}
	return rules
}

// Any order in which the facts of held connections arrive gives the same judgement.
func FuzzHeldConnectionsInAnyOrder(f *testing.F) {
	files, err := filepath.Glob("testdata/held_*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no cases", err)
	}
	f.Add(uint64(1), uint8(0))
	f.Add(uint64(7), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, which uint8) {
		archive, err := txtar.ParseFile(files[int(which)%len(files)])
		if err != nil {
			t.Fatal(err)
		}
		run := readCase(t, archive).run()
		want := analyzed(t, run)
		shuffle(seed, run.Held)
		got := analyzed(t, run)
		if a, b := fmt.Sprintf("%+v", printConnections(want)), fmt.Sprintf("%+v", printConnections(got)); a != b {
			t.Errorf("in another order:\n%s\nwant\n%s", b, a)
		}
	})
}

func shuffle(seed uint64, batches []timeline.HeldBatch) {
	for i := len(batches) - 1; i > 0; i-- {
		seed = seed*6364136223846793005 + 1442695040888963407
		j := int(seed>>33) % (i + 1)
		batches[i], batches[j] = batches[j], batches[i]
	}
}
