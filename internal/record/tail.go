package record

import (
	"context"
	"fmt"
	"io"
	"os"
)

// A Tail reads the bytes of a recording that is still being written. At the end so far, Read waits. It returns io.EOF
// when the Writer was closed or failed and everything was read. It returns complete blocks only.
type Tail struct {
	ctx    context.Context
	log    *log
	file   readCloserAt
	offset int64
}

// readCloserAt is what a Tail needs of an *os.File.
type readCloserAt interface {
	io.ReaderAt
	io.Closer
}

// Tail returns a reader of the recording from a byte offset, until its end or until ctx ends. The caller closes it. An
// offset beyond the recording is an error: the caller has another run's. For one that a recording in memory has
// forgotten, it is a [ForgottenError].
func (w *Writer) Tail(ctx context.Context, offset int64) (*Tail, error) {
	if size := w.Size(); offset < 0 || offset > size {
		return nil, fmt.Errorf("read recording from byte %d: it has %d", offset, size)
	}
	f, err := w.log.open(offset)
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	return &Tail{ctx: ctx, log: &w.log, file: f, offset: offset}, nil
}

// Read reads what is there, and waits if nothing is. It returns io.EOF after the last byte of an ended recording, or
// the context's error.
func (t *Tail) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		size, ended, grown := t.log.state()
		if t.offset < size {
			return t.read(p[:min(int64(len(p)), size-t.offset)])
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-grown:
		case <-t.ctx.Done():
			return 0, context.Cause(t.ctx)
		}
	}
}

// Has reports whether the byte at an offset is kept, if it was ever written.
func (w *Writer) Has(offset int64) bool {
	m, ok := w.log.file.(*memory)
	if !ok {
		return true
	}
	_, err := m.ReadAt(nil, offset)
	return err == nil
}

// open opens the recording for one more reader, which begins at an offset.
func (l *log) open(offset int64) (readCloserAt, error) {
	if m, ok := l.file.(*memory); ok {
		_, err := m.ReadAt(nil, offset)
		return m, err
	}
	return os.Open(l.path)
}

func (t *Tail) read(p []byte) (int, error) {
	n, err := t.file.ReadAt(p, t.offset)
	t.offset += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("read recording: %w", err)
}

// Close ends the reading. The recording is not affected.
func (t *Tail) Close() error { return t.file.Close() }
