package perfetto

import (
	"time"

	"lapse/internal/report/document"
)

// An event is an entry of the trace's list. Times are whole microseconds: slices that touch do not overlap when a
// reader takes them for floating-point numbers.
type event struct {
	Name     string `json:"name"`
	Category string `json:"cat,omitzero"`
	Kind     string `json:"ph"`
	At       int64  `json:"ts"`
	Length   *int64 `json:"dur,omitzero"`
	Process  int    `json:"pid"`
	Thread   int    `json:"tid"`
	Number   int    `json:"id,omitzero"`
	Bind     string `json:"bp,omitzero"` // of arrowTo: "e" is the slice around it, not the next one
	Scope    string `json:"s,omitzero"`
	Args     any    `json:"args,omitzero"`
}

// What an event can be.
const (
	naming    = "M"
	slice     = "X"
	instant   = "i"
	arrowFrom = "s"
	arrowTo   = "f"
	counter   = "C"
)

// phases are the kinds in the order in which events of the same time are written.
const phases = naming + slice + instant + arrowFrom + arrowTo + counter

func micros(d time.Duration) int64 { return max(0, d.Microseconds()) }

// A process is what the tracks of a source, or of the cluster, stand under.
type process struct {
	trace  *trace
	number int
}

// process adds a process below those that there are.
func (t *trace) process(name string) *process {
	p := &process{t, t.number()}
	p.name("process", name, p.number)
	return p
}

// name names a process, or a thread of it, and says where it stands.
func (p *process) name(what, name string, thread int) {
	for _, e := range []event{
		{Name: what + "_name", Args: map[string]string{"name": document.Clean(name)}},
		{Name: what + "_sort_index", Args: map[string]int{"sort_index": thread}},
	} {
		e.Kind, e.Process, e.Thread = naming, p.number, thread
		p.trace.add(e)
	}
}

// A track is a row of slices, and further rows of the same name for slices that would overlap: the format has none
// that do, other than one within another.
type track struct {
	process *process
	name    string
	rows    []row
	side    map[string]*track
}

// A row is a thread of the trace.
type row struct {
	number int
	free   int64 // from when on it has no slice
}

func (p *process) track(name string) *track {
	return &track{process: p, name: name}
}

// beside returns the track that stands below k and has a name in addition.
func (k *track) beside(name string) *track {
	if k.side == nil {
		k.side = map[string]*track{}
	}
	if k.side[name] == nil {
		k.side[name] = k.process.track(k.name + ", " + name)
	}
	return k.side[name]
}

// row returns the ith row, which is new if i is how many there are.
func (k *track) row(i int) *row {
	if i == len(k.rows) {
		r := row{number: k.process.trace.number()}
		k.process.name("thread", k.name, r.number)
		k.rows = append(k.rows, r)
	}
	return &k.rows[i]
}

// placed is where a slice is.
type placed struct {
	event
	end int64
}

// slice adds e from one instant to another, to the first row where it overlaps no other slice. Slices of a track are to
// be added by their start, or there are more rows than it needs.
func (k *track) slice(e event, from, to time.Duration) placed {
	start, end := micros(from), max(micros(from), micros(to))
	i := 0
	for i < len(k.rows) && start < k.rows[i].free {
		i++
	}
	r := k.row(i)
	r.free = max(end, start+1) // or an arrow to the next slice would end at this one
	e.Kind, e.At, e.Length = slice, start, new(end-start)
	return placed{k.put(e, r), end}
}

// instant adds e to the first row.
func (k *track) instant(e event, at time.Duration) {
	e.Kind, e.At, e.Scope = instant, micros(at), "t"
	k.put(e, k.row(0))
}

func (k *track) put(e event, r *row) event {
	e.Name = document.Clean(e.Name)
	e.Process, e.Thread = k.process.number, r.number
	k.process.trace.add(e)
	return e
}
