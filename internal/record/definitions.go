package record

// definitions are the facts that others refer to: the run, its sources, targets, backends and peers. A recording
// repeats them now and then, and at the end. Otherwise the loss of one block would be the loss of all facts that
// refer to it.
type definitions struct {
	once     bool // they are never repeated, and not kept for that
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

// note keeps a fact that is a definition.
func (d *definitions) note(kind byte, text []byte) {
	if d.once {
		return
	}
	switch kind {
	case metaFact, sourceFact, targetFact, backendFact, peerFact:
		d.facts = append(d.facts, definition{kind, text})
		d.size += len(text)
	}
}

// due reports whether to repeat the definitions in a file of length now. They compress well, and so are a few percent
// of the file.
func (d *definitions) due(now int64) bool {
	return d.flushed > 0 && now-d.since > 64<<10+4*int64(d.size)
}
