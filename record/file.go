package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"lapse/timeline"
)

// A File is a recording on disk, opened for reading. Several goroutines may read it at once.
type File struct {
	path string
	file *os.File
}

// Open opens a recording. It may still be written to; what is read is its intact prefix. The error
// for anything else than a recording is a [*FileError] with a hint.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{what: cannotOpen(path, err), hint: hint, err: err}
	}
	if err := readHeader(f); err != nil {
		f.Close()
		return nil, notRecording(path, err)
	}
	return &File{path: path, file: f}, nil
}

const hint = "name a recording that `lapse run` wrote"

func cannotOpen(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return path + " does not exist"
	}
	return "open recording: " + err.Error()
}

func notRecording(path string, err error) error {
	e := &FileError{what: path + " is not a Lapse recording", hint: hint, err: err}
	if info, serr := os.Stat(path); serr == nil && info.IsDir() {
		e.what = path + " is a directory, not a Lapse recording"
	}
	if errors.Is(err, errNewer) || errors.Is(err, errOlder) {
		e.what, e.hint = path+" was "+err.Error(), "read it with the version of lapse that wrote it"
	}
	return e
}

// Close closes the file. Runs taken from it yield no further batches.
func (f *File) Close() error { return f.file.Close() }

// Run reads the recording once and returns everything but its batches, which are read again at each
// pass over Run.Batches, and always as far as the recording reached now.
//
// If the recording is cut off or damaged, the run is its intact prefix and the error says so: it is
// [ErrTruncated] for one whose writer was killed or still writes, [ErrCorrupt] for a damaged one.
// Both leave a run that can be judged. Any other error leaves none.
func (f *File) Run() (timeline.Run, error) {
	var run timeline.Run
	u, err := newUnpacker()
	if err != nil {
		return run, err
	}
	defer u.close()
	u.only = func(kind byte) bool { return kind != batchFact }

	end := int64(headerSize)
	blocks := bufio.NewReaderSize(io.NewSectionReader(f.file, end, 1<<62), 1<<16)
	keep := func(block []byte) error { end += int64(len(block)); return nil }
	decodeBlocks(blocks, u, keep, func(fact timeline.Fact, ferr error) bool {
		err = ferr
		gather(&run, fact)
		return true
	})
	run.Batches = f.batches(end)
	if err != nil {
		err = fmt.Errorf("%s, byte %d: %w", f.path, end, err)
	}
	return run, err
}

// gather puts a fact in its place in the run.
func gather(run *timeline.Run, fact timeline.Fact) {
	switch fact := fact.(type) {
	case timeline.Meta:
		run.Meta = fact
	case timeline.Source:
		run.Sources = append(run.Sources, fact)
	case timeline.Sync:
		run.Syncs = append(run.Syncs, fact)
	case timeline.Peer:
		run.Peers = append(run.Peers, fact)
	case timeline.Target:
		run.Targets = append(run.Targets, fact)
	case timeline.Backend:
		run.Backends = append(run.Backends, fact)
	case timeline.Event:
		run.Events = append(run.Events, fact)
	}
}

// batches yields the batches of the file's first end bytes.
func (f *File) batches(end int64) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		u, err := newUnpacker()
		if err != nil {
			yield(timeline.Batch{}, err)
			return
		}
		defer u.close()
		u.only = func(kind byte) bool { return kind == batchFact }
		size := end - int64(headerSize)
		blocks := bufio.NewReaderSize(io.NewSectionReader(f.file, int64(headerSize), size), 1<<16)
		decodeBlocks(blocks, u, nil, func(fact timeline.Fact, err error) bool {
			if err != nil {
				return yield(timeline.Batch{}, fmt.Errorf("%s: %w", f.path, err))
			}
			return yield(fact.(timeline.Batch), nil)
		})
	}
}
