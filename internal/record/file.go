package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"lapse/internal/hint"
	"lapse/timeline"
)

// A File is a recording on disk, opened for reading. Several goroutines may read it at once.
type File struct {
	path string
	file *os.File
}

// Open opens a recording. The recording may still grow; only its intact part is read. If the file is no recording, the
// error is a [*FileError] with a hint.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.Add(nameOne, &FileError{what: cannotOpen(path, err), err: err})
	}
	if err := readHeader(f); err != nil {
		f.Close()
		return nil, notRecording(path, err)
	}
	return &File{path: path, file: f}, nil
}

const nameOne = "name a recording that `lapse run` wrote"

func cannotOpen(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return path + " does not exist"
	}
	return "open recording: " + err.Error()
}

func notRecording(path string, err error) error {
	e, advice := &FileError{what: path + " is not a Lapse recording", err: err}, nameOne
	if info, serr := os.Stat(path); serr == nil && info.IsDir() {
		e.what = path + " is a directory, not a Lapse recording"
	}
	switch {
	case errors.Is(err, errNewer):
		e.what, advice = path+" was "+err.Error(), "read it with the version of lapse that wrote it"
	case errors.Is(err, errOlder):
		e.what = path + " was " + err.Error()
		advice = "it is of a Lapse before the first release: read it with the commit that wrote it"
	}
	return hint.Add(advice, e)
}

// Close closes the file. Runs taken from it yield no further batches.
func (f *File) Close() error { return f.file.Close() }

// Run reads the recording once and returns everything except its batches. Each pass over Run.Batches reads these again,
// up to the recording's end at the time of Run.
//
// If the recording is cut off or damaged, Run returns what is intact, before and after the damage, and an error that
// says what is missing: [ErrTruncated] if the writer was killed or still writes, [ErrCorrupt] for damage. In both cases
// the run can be judged: what is missing appears as gaps between sequence numbers. Any other error leaves no run.
func (f *File) Run() (timeline.Run, error) {
	u := unpacker{reading: heads}
	info, err := f.file.Stat()
	if err != nil {
		return timeline.Run{}, fmt.Errorf("read recording: %w", err)
	}
	var all gatherer
	var missing account
	leftOut := map[int64]bool{} // where the blocks begin that do not count
	lost := func(l loss) {
		leftOut[l.at] = true
		missing.note(l)
	}
	end, err := f.walk(&u, info.Size(), lost, func(at int64, facts []timeline.Fact) bool {
		if !missing.block(at, int64(len(u.frame)), facts) {
			leftOut[at] = true
			return true
		}
		for _, fact := range facts {
			all.add(fact)
		}
		return true
	})
	run := all.run
	run.Batches = f.batches(end, leftOut)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return run, fmt.Errorf("%s, byte %d: %w", f.path, end, err)
	}
	if damage := missing.error(); damage != nil {
		return run, fmt.Errorf("%s: %w", f.path, damage)
	}
	if err != nil {
		err = fmt.Errorf("%s, byte %d: %w", f.path, end, err)
	}
	return run, err
}

// A gatherer collects facts into a run. A repeat counts only if the original was lost.
type gatherer struct {
	run   timeline.Run
	known map[any]bool // the keys of the definitions in run
}

func (g *gatherer) add(fact timeline.Fact) {
	again, isRepeat := fact.(repeat)
	if isRepeat {
		fact = again.Fact
	}
	run := &g.run
	switch fact := fact.(type) {
	case timeline.Meta:
		if !isRepeat || run.Meta.ID == "" {
			run.Meta = fact
		}
	case timeline.Source:
		if g.wants(fact.ID, isRepeat) {
			run.Sources = append(run.Sources, fact)
		}
	case timeline.Sync:
		run.Syncs = append(run.Syncs, fact)
	case timeline.Peer:
		if g.wants(fact, isRepeat) {
			run.Peers = append(run.Peers, fact)
		}
	case timeline.Target:
		if g.wants(fact.ID, isRepeat) {
			run.Targets = append(run.Targets, fact)
		}
	case timeline.Backend:
		if g.wants(fact, isRepeat) {
			run.Backends = append(run.Backends, fact)
		}
	case timeline.Event:
		run.Events = append(run.Events, fact)
	case timeline.HeldBatch:
		run.Held = append(run.Held, fact)
	}
}

// wants reports whether to add a definition: it does not repeat a known one.
func (g *gatherer) wants(key any, isRepeat bool) bool {
	if isRepeat && g.known[key] {
		return false
	}
	if g.known == nil {
		g.known = map[any]bool{}
	}
	g.known[key] = true
	return true
}

// batches yields the batches of the file's first end bytes, except of the blocks at leftOut. It returns errors that
// [File.Run] does not see, because that reads no requests.
func (f *File) batches(end int64, leftOut map[int64]bool) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		u := unpacker{reading: batches}
		var missing account
		lost := func(l loss) {
			if !leftOut[l.at] {
				missing.note(l)
			}
		}
		stopped := false
		_, err := f.walk(&u, end, lost, func(at int64, facts []timeline.Fact) bool {
			if leftOut[at] {
				return true
			}
			missing.close()
			for _, fact := range facts {
				if stopped = !yield(fact.(timeline.Batch), nil); stopped {
					return false
				}
			}
			return true
		})
		if err = cmp.Or(err, missing.error()); err != nil && !stopped {
			yield(timeline.Batch{}, fmt.Errorf("%s: %w", f.path, err))
		}
	}
}

// A visit gets the facts of a block and where the block begins. It returns false to end.
type visit func(at int64, facts []timeline.Fact) bool

// walk calls visit for every intact block in the file's first size bytes, with where it begins and its facts, and
// lost for each stretch between blocks. It returns where it ended: at the end, or where the file breaks off or is
// unreadable.
func (f *File) walk(u *unpacker, size int64, lost func(loss), visit visit) (end int64, err error) {
	at := int64(headerSize)
	for in := section(f.file, at, size); ; {
		facts, err := u.next(in)
		switch {
		case err == nil:
			begin := at
			at += int64(len(u.frame))
			if !visit(begin, facts) {
				return at, nil
			}
		case errors.Is(err, io.EOF):
			return at, nil
		case !errors.Is(err, ErrCorrupt):
			return at, err
		default:
			next, nerr := nextBlock(f.file, at+1, size)
			if nerr != nil {
				return at, nerr
			}
			lost(loss{at: at, bytes: next - at, leftOut: impossibleIn(err)})
			at = next
			in = section(f.file, at, size)
		}
	}
}

// impossibleIn returns what a block states that no run can have; "" if the block cannot be read.
func impossibleIn(err error) string {
	if e, ok := errors.AsType[*impossible](err); ok {
		return e.fact.Error()
	}
	return ""
}
