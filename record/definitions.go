package record

// definitions are the facts that others refer to: the run, its sources, targets, backends and peers. They are repeated now and
// then, and at the end: with the one block that held them, all that refers to them would be lost.
type definitions struct {
	facts    []definition
	size     int   // of their texts
	flushed  int   // how many of them are in the file
	repeated int   // how many were when they were last repeated
	since    int64 // the file's length then
}

type definition struct {
	kind byte
	text []byte
}

// note takes in a fact as it is recorded.
func (d *definitions) note(kind byte, text []byte) {
	switch kind {
	case metaFact, sourceFact, targetFact, backendFact, peerFact:
		d.facts = append(d.facts, definition{kind, text})
		d.size += len(text)
	}
}

// due reports whether definitions are to be repeated in a file of length now: so seldom that they are a few percent of it, as
// they compress well.
func (d *definitions) due(now int64) bool {
	return d.flushed > 0 && now-d.since > 64<<10+4*int64(d.size)
}

// repeat adds the definitions that are in the file to a block that follows.
func (d *definitions) repeat(b *block, now int64) {
	for _, f := range d.facts[:d.flushed] {
		b.addText(f.kind+repeated, f.text)
	}
	d.repeated, d.since = d.flushed, now
}
